"""SentencePiece's BPE from a vocabulary with scores alone, as GGUF files carry it for Llama 2 and Gemma.

Such files list no merges. Two neighbours merge where their concatenation is in the vocabulary, so no
table of merges is built: Gemma's would have half a million rows and take seconds, this takes none.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

SPACE = "▁"
CACHED_WORDS = 1 << 16
CACHED_LETTERS = 64  # of a word that is kept
BEFORE_SPACE = re.compile(f".(?={SPACE})", re.DOTALL)
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")

Candidate = tuple[float, int, int, int, int, str, str]


class SentencePieceCodec:
    """Text to ids and back.

    tokens: the vocabulary, spelled with ▁ for a space.
    scores: of each token; the highest merges first.
    added: tokens found whole in the text before anything merges.
    control: ids that decoding may leave out.
    prefix: whether ▁ goes before text that doesn't begin with a space.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Sequence[float],
        added: frozenset[str],
        control: frozenset[int],
        unknown_id: int | None,
        prefix: bool,
    ) -> None:
        self._tokens, self._scores, self._control, self._prefix = tokens, scores, control, prefix
        self._ids = {token: index for index, token in enumerate(tokens)}
        self._unknown = [] if unknown_id is None else [tokens[unknown_id]]
        self._added = added - {""}
        # By first character, longest first: of two that match at a place, the longer one counts.
        self._added_lengths = {
            first: sorted({len(token) for token in self._added if token[0] == first}, reverse=True)
            for first in {token[0] for token in self._added}
        }
        self._added_starts = re.compile(f"[{_escaped(self._added_lengths)}]" if self._added else "(?!)")
        # No token has ▁ behind any other character than these, so no merge reaches from one that is
        # not among them to a ▁ behind it: text is cut there, and words seen before are looked up.
        glue = {
            before for token in tokens if token.rfind(SPACE) > 0 for before in BEFORE_SPACE.findall(token)
        } | {SPACE}
        self._word_ends = re.compile(f"(?<=[^{_escaped(glue)}])(?={SPACE})")
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        at = 0
        for start, end in self._find_added(text):
            ids += [*self._encode_plain(text[at:start], at == 0), self._ids[text[start:end]]]
            at = end
        return ids + self._encode_plain(text[at:], at == 0)

    def decode(self, ids: Sequence[int], skip_control: bool) -> str:
        """As Hugging Face's ByteFallback: a run of bytes that is not UTF-8 gives one � for each."""
        parts, run = [], bytearray()
        for token in (self.spell(index) for index in ids if not (skip_control and index in self._control)):
            if byte := BYTE_TOKEN.fullmatch(token):
                run.append(int(byte[1], 16))
                continue
            parts += [_decode_bytes(run), token.replace(SPACE, " ")]
            run.clear()
        text = "".join([*parts, _decode_bytes(run)])
        return text.removeprefix(" ") if self._prefix else text

    def spell(self, index: int) -> str:
        """A token as the vocabulary spells it; empty for an id that it doesn't have."""
        return self._tokens[index] if 0 <= index < len(self._tokens) else ""

    def _find_added(self, text: str) -> Iterator[tuple[int, int]]:
        """(start, end) of the added tokens in the text: leftmost first, and the longest there."""
        at = 0
        while found := self._added_starts.search(text, at):
            start = found.start()
            for length in self._added_lengths[text[start]]:
                if text[start : start + length] in self._added:
                    yield start, start + length
                    at = start + length
                    break
            else:
                at = start + 1

    def _encode_plain(self, text: str, first: bool) -> list[int]:
        """Ids of text without added tokens; `first`: it stands at the very beginning."""
        if not text:
            return []
        text = text.replace(" ", SPACE)
        if first and self._prefix and not text.startswith(SPACE):
            text = SPACE + text
        ids: list[int] = []
        for word in self._word_ends.split(text):
            found = self._words.get(word)
            if found is None:
                found = [self._ids[symbol] for symbol in self._merge(self._symbols(word))]
                if len(word) <= CACHED_LETTERS:  # a text without spaces is one word
                    if len(self._words) >= CACHED_WORDS:
                        self._words.clear()
                    self._words[word] = found
            ids += found
        return ids

    def _symbols(self, word: str) -> list[str]:
        """Characters; where one isn't in the vocabulary its UTF-8 bytes, or else the unknown token."""
        symbols: list[str] = []
        for character in word:
            if character in self._ids:
                symbols.append(character)
                continue
            as_bytes = [f"<0x{byte:02X}>" for byte in character.encode()]
            if all(byte in self._ids for byte in as_bytes):
                symbols += as_bytes
            elif symbols[-1:] != self._unknown:
                symbols += self._unknown
        return symbols

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merge the best pair of neighbours until none is left; leftmost where two are alike."""
        left, right = list(range(-1, len(symbols) - 1)), list(range(1, len(symbols) + 1))
        heap = [each for at in range(len(symbols) - 1) for each in self._candidate(symbols, at, at + 1)]
        heapify(heap)
        while heap:
            *_, at, a, b = heappop(heap)
            after = right[at]
            if symbols[at] != a or after == len(symbols) or symbols[after] != b:
                continue  # one of the two has merged with another since
            symbols[at], symbols[after] = a + b, ""
            right[at] = right[after]
            if right[at] < len(symbols):
                left[right[at]] = at
                for each in self._candidate(symbols, at, right[at]):
                    heappush(heap, each)
            if left[at] >= 0:
                for each in self._candidate(symbols, left[at], at):
                    heappush(heap, each)
        return [symbol for symbol in symbols if symbol]

    def _candidate(self, symbols: list[str], at: int, after: int) -> list[Candidate]:
        """The merge of two neighbours, if there is one, so that the best compares as the smallest."""
        a, b = symbols[at], symbols[after]
        index = self._ids.get(a + b)
        return [] if index is None else [(-self._scores[index], -len(a), -len(b), index, at, a, b)]


def _escaped(characters: Iterable[str]) -> str:
    """As they stand between the brackets of a regular expression."""
    return re.escape("".join(sorted(characters)))


def _decode_bytes(run: bytearray) -> str:
    try:
        return run.decode()
    except UnicodeDecodeError:
        return "�" * len(run)
