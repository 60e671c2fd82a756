"""A tokenizer of Hugging Face's `tokenizers` library."""

from collections.abc import Sequence

import tokenizers


class LibraryCodec:
    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library

    def encode(self, text: str) -> list[int]:
        return self._library.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int], skip_control: bool) -> str:
        return self._library.decode(list(ids), skip_special_tokens=skip_control)

    def spell(self, index: int) -> str:
        return self._library.id_to_token(index) or ""
