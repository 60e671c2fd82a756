"""The owner of the books: requests and outcomes in, passes out."""

from collections.abc import Iterable

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.errors import InputError, nearest
from twophase.scheduler.compiling import moves_for
from twophase.scheduler.keys import with_keys
from twophase.scheduler.moves import begin_pass, enqueue
from twophase.scheduler.policy import POLICIES, Policy
from twophase.scheduler.pool import forget_keys_of
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.state import (
    ARRIVAL,
    COMPUTED,
    DRAFTS,
    HELD,
    KEY_COUNT,
    KNOWN,
    LEFT,
    MAX_OUTPUT,
    N_FREE,
    N_HIT,
    N_PREEMPTIONS,
    N_QUERIED,
    N_RUNNING,
    N_WAITING,
    OUTPUT,
    PASS,
    PICKED,
    PREEMPTED,
    PRIORITY,
    ROWS,
    RUNNING,
    SEAT,
    STATUS,
    Ints,
    blocks_for,
    new_state,
    with_more_slots,
)


def policy_named(name: str) -> Policy:
    """InputError where there is none such."""
    if name not in POLICIES:
        raise InputError(f"no policy {name!r}; there are {', '.join(POLICIES)}{nearest(name, POLICIES)}")
    return POLICIES[name]


class Scheduler:
    """Continuous batching over a paged KV cache with a prefix cache.

    `policy`: a name in POLICIES (InputError where there is none such), or a function of your own of the same
    form. `ageing`: tokens by which a pass of waiting makes a prompt shorter, for "shortest-first".
    Between `schedule()` and `commit()` of the same pass, requests may be added and cancelled.
    """

    def __init__(self, limits: Limits, policy: str | Policy = "decode-first", *, ageing: int = 64) -> None:
        policy = policy_named(policy) if isinstance(policy, str) else policy
        self.limits = limits
        self.state = new_state(limits, slots=64, ageing=ageing)
        self._moves, self._policy = moves_for(policy, limits)
        self._slots: dict[int, int] = {}  # by request id
        self._ids = np.zeros(64, np.int64)  # by slot
        self._vacant = list(range(64))[::-1]
        self._arrivals = 0
        self._sent: dict[int, tuple[int, tuple[int, ...]]] = {}  # by slot: preemptions so far, blocks

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._slots

    @property
    def running(self) -> int:
        return int(self.state.counts[N_RUNNING])

    @property
    def waiting(self) -> int:
        return int(self.state.counts[N_WAITING])

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds; the prefix cache may still find what they contain."""
        return int(self.state.counts[N_FREE])

    @property
    def used_blocks(self) -> int:
        return self.limits.blocks - self.free_blocks

    @property
    def preemptions(self) -> int:
        return int(self.state.counts[N_PREEMPTIONS])

    @property
    def prefix_queries(self) -> int:
        """Tokens that were looked up in the prefix cache, at each request's first admission."""
        return int(self.state.counts[N_QUERIED])

    @property
    def prefix_hits(self) -> int:
        """Those of them that were there."""
        return int(self.state.counts[N_HIT])

    def preempted(self, request_id: int) -> int:
        """Times that the request lost its blocks. KeyError where it isn't here."""
        return int(self.state.slots[self._slots[request_id], PREEMPTED])

    def add(self, request: Request) -> str | None:
        """Queue the request. Returns None, or why it can never be served; then it isn't taken."""
        if request.id in self._slots:
            raise ValueError(f"request {request.id} is already here")
        refusal = refusal_of(request, self.limits)
        if refusal is None:
            if not self._vacant:
                self._grow()
            slot = self._vacant[-1]
            self._fill(slot, request)  # may raise where a number is too large for the books
            self._vacant.pop()
            self._slots[request.id] = slot
            self._ids[slot] = request.id
            enqueue(self.state, slot)
        return refusal

    def cancel(self, request_id: int) -> bool:
        """Drop the request and free its blocks now. False where it isn't here (any more)."""
        if request_id not in self._slots:
            return False
        self._remove([request_id])
        return True

    def schedule(self) -> Pass | None:
        """The next pass, or None where nobody is to run."""
        state = self.state
        begin_pass(state)
        self._policy(state)
        count = self._moves.fill_pass(state)
        if state.counts[LEFT] < 0:
            raise ValueError(f"the policy grants {-state.counts[LEFT]} rows beyond {self.limits.budget}")
        if not count:
            return None
        slots, rows = state.seats[:count, PICKED], state.seats[:count, ROWS]
        contexts = state.slots[slots, COMPUTED]
        # the last known token's row, and those of drafts behind it
        logit_rows = np.maximum(contexts + rows - state.slots[slots, KNOWN] + 1, 0)
        columns = (self._ids[slots], rows, contexts, logit_rows)
        sequences, new, context, logits = (column.tolist() for column in columns)
        return Pass(tuple(map(Span, sequences, new, context, self._block_tables(slots), logits)))

    def commit(self, pass_: Pass, outcome: PassOutcome) -> list[int]:
        """Take in what the pass gave. Returns the ids that are finished; their blocks are free again.

        ValueError, and nothing taken in, where the outcome doesn't answer the pass, or the pass isn't the
        one that was scheduled last.
        """
        spans, slots = self._still_here(pass_)
        sequences = [span.sequence for span in spans]
        tokens, asked = outcome.tokens, outcome.drafts
        kept = np.array([len(tokens[each]) if each in tokens else 0 for each in sequences], np.int64)
        drafts = np.zeros(len(spans), np.int64)
        if asked:
            drafts[:] = [max(0, asked.get(each, 0)) for each in sequences]
        self._check_answer(spans, slots, kept, outcome)
        if outcome.block_keys and self.limits.prefix_cache:
            self._take_keys(sequences, slots, outcome)
        state = self.state
        ends = np.array([span.context + span.new for span in spans], np.int64)
        self._moves.advance(state, slots, ends, kept, drafts)
        full = (state.slots[slots, OUTPUT] >= state.slots[slots, MAX_OUTPUT]).tolist()
        stopped = outcome.stopped
        finished = [each for each, done in zip(sequences, full, strict=True) if done or each in stopped]
        self._remove(finished)
        return finished

    def abandon(self, pass_: Pass) -> list[int]:
        """The pass raised: those in it who are still here are removed, and what it was to fill is forgotten.

        Returns their ids. It must be the pass that was scheduled last.
        """
        sequences = [span.sequence for span in self._still_here(pass_)[0]]
        forget_keys_of(self.state, int(self.state.counts[PASS]))
        self._remove(sequences)
        return sequences

    def _still_here(self, pass_: Pass) -> tuple[list[Span], Ints]:
        """Spans and slots of those who weren't cancelled in flight; an id may already wait again."""
        spans = list(pass_.spans)
        slots = np.array([self._slots.get(span.sequence, -1) for span in spans], np.int64)
        here = (slots >= 0) & (self.state.slots[slots, STATUS] == RUNNING)
        if not here.all():
            spans, slots = [span for span, it_is in zip(spans, here, strict=True) if it_is], slots[here]
        return spans, slots

    def _check_answer(self, spans: list[Span], slots: Ints, kept: Ints, outcome: PassOutcome) -> None:
        state, block_size = self.state, self.limits.block_size
        computed = state.slots[slots, COMPUTED].tolist()
        to_come = (state.slots[slots, MAX_OUTPUT] - state.slots[slots, OUTPUT]).tolist()
        for span, start, rest, tokens in zip(spans, computed, to_come, kept.tolist(), strict=True):
            if span.context != start:
                raise ValueError(
                    f"sequence {span.sequence}: the pass starts at {span.context}, not at {start}"
                )
            most = min(span.logit_rows, rest)
            if tokens > most:
                raise ValueError(
                    f"sequence {span.sequence}: kept {tokens} tokens where at most {most} can be"
                )
        if outcome.block_keys:
            known = state.slots[slots, KNOWN].tolist()
            for span, start, tokens in zip(spans, known, kept.tolist(), strict=True):
                keys = len(outcome.block_keys.get(span.sequence, ()))
                filled = (start + tokens) // block_size - start // block_size
                if keys > filled:
                    raise ValueError(
                        f"sequence {span.sequence}: {keys} block keys where {filled} blocks were filled"
                    )

    def _take_keys(self, sequences: list[int], slots: Ints, outcome: PassOutcome) -> None:
        for sequence, slot in zip(sequences, slots.tolist(), strict=True):
            keys = outcome.block_keys.get(sequence, ())
            # a gap before them, and they would stand for other blocks
            full = self.state.slots[slot, KNOWN] // self.limits.block_size
            if keys and self.state.slots[slot, KEY_COUNT] == full:
                self.state = with_keys(self.state, slot, keys)

    def _fill(self, slot: int, request: Request) -> None:
        state = self.state
        row = state.slots[slot]
        row[[KNOWN, MAX_OUTPUT, PRIORITY, ARRIVAL]] = (
            *(request.prompt_tokens, request.max_output, request.priority, self._arrivals),
        )
        row[[COMPUTED, OUTPUT, DRAFTS, PREEMPTED]] = 0
        self._arrivals += 1
        if request.block_keys and self.limits.prefix_cache:
            self.state = with_keys(
                state, slot, request.block_keys[: request.prompt_tokens // self.limits.block_size]
            )

    def _remove(self, request_ids: Iterable[int]) -> None:
        slots = [self._slots.pop(each) for each in request_ids]
        if slots:
            self._moves.dismiss(self.state, np.array(slots, np.int64))
            for slot in slots:
                self._sent.pop(slot, None)
            self._vacant += slots

    def _grow(self) -> None:
        slots = len(self._ids)
        self.state = with_more_slots(self.state)
        self._ids = np.concatenate([self._ids, np.zeros(slots, np.int64)])
        self._vacant += range(2 * slots - 1, slots - 1, -1)

    def _block_tables(self, slots: Ints) -> list[tuple[int, ...]]:
        # Tuples are kept: to build them is dear, and only one decode in `block_size` changes its own.
        state, tables = self.state, []
        columns = (slots, state.slots[slots, HELD], state.slots[slots, PREEMPTED])
        for slot, held, preempted in zip(*(column.tolist() for column in columns), strict=True):
            sent_in, blocks = self._sent.get(slot, (0, ()))
            if sent_in != preempted or len(blocks) != held:
                blocks = tuple(state.table[state.slots[slot, SEAT], :held].tolist())
                self._sent[slot] = preempted, blocks
            tables.append(blocks)
        return tables


def refusal_of(request: Request, limits: Limits) -> str | None:
    """Why the request can never be served, or None."""
    prompt, output = request.prompt_tokens, request.max_output
    if prompt < 1:
        return "the prompt is empty"
    if output < 1:
        return f"{output} output tokens asked for; it must be at least 1"
    if prompt + output > limits.context_length:
        return (
            f"{prompt} prompt and {output} output tokens do not fit in "
            f"the context length of {limits.context_length}"
        )
    # the last token's KV is never needed
    blocks = blocks_for(prompt + output - 1, limits.block_size)
    if blocks > limits.blocks:
        return (
            f"{prompt} prompt and {output} output tokens need {blocks} KV blocks "
            f"of {limits.block_size}; there are {limits.blocks}"
        )
    return None
