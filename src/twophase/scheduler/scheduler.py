"""The owner of the books: requests and outcomes in, passes out."""

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.scheduler.policy import first_come_first_served
from twophase.scheduler.request import Limits, Outcome, Request
from twophase.scheduler.state import (
    N_FREE,
    N_PREEMPTIONS,
    N_RUNNING,
    N_WAITING,
    RUNNING,
    Ints,
    advance,
    blocks_for,
    close_ranks,
    enqueue,
    leave,
    new_state,
    with_more_slots,
)


class Scheduler:
    """Continuous batching over a paged KV cache, first come first served.

    Between `schedule()` and `commit()` of the same pass, requests may be added and cancelled.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.state = new_state(limits, slots=64)
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
        return int(self.state.counts[N_FREE])

    @property
    def preemptions(self) -> int:
        return int(self.state.counts[N_PREEMPTIONS])

    def add(self, request: Request) -> str | None:
        """Queue the request. Returns None, or why it can never be served; then it isn't taken."""
        if request.id in self._slots:
            raise ValueError(f"request {request.id} is already here")
        refusal = self._refusal(request)
        if refusal is None:
            if not self._vacant:
                self._grow()
            slot = self._vacant.pop()
            self._slots[request.id] = slot
            self._ids[slot] = request.id
            self._fill(slot, request)
            enqueue(self.state, slot)
        return refusal

    def cancel(self, request_id: int) -> bool:
        """Drop the request and free its blocks now. False where it isn't here (any more)."""
        if request_id not in self._slots:
            return False
        self._remove(request_id)
        close_ranks(self.state)
        return True

    def schedule(self) -> Pass | None:
        """The next pass, or None where nobody is here to run."""
        state = self.state
        count = first_come_first_served(state, self.limits.budget, self.limits.block_size)
        if not count:
            return None
        slots, rows = state.picked[:count], state.rows[:count]
        contexts = state.computed[slots]
        logit_rows = (contexts + rows >= state.known[slots]).astype(np.int64)
        columns = (self._ids[slots], rows, contexts, logit_rows)
        sequences, new, context, logits = (column.tolist() for column in columns)
        return Pass(tuple(map(Span, sequences, new, context, self._block_tables(slots), logits)))

    def commit(self, pass_: Pass, outcome: Outcome) -> list[int]:
        """Take in what the pass gave. Returns the ids that are finished; their blocks are free again.

        ValueError, and nothing taken in, where the outcome doesn't answer the pass, or the pass isn't the
        one that was scheduled last.
        """
        state = self.state
        spans = list(pass_.spans)
        slots = np.array([self._slots.get(span.sequence, -1) for span in spans], np.int64)
        here = (slots >= 0) & (state.status[slots] == RUNNING)
        if not here.all():  # some were cancelled in flight, and an id may already wait again
            spans, slots = [span for span, it_is in zip(spans, here, strict=True) if it_is], slots[here]
        kept = np.array([len(outcome.tokens.get(span.sequence, ())) for span in spans], np.int64)
        self._check_answer(spans, slots, kept)
        advance(state, slots, np.array([span.context + span.new for span in spans], np.int64), kept)
        full = (state.output[slots] >= state.max_output[slots]).tolist()
        finished = [
            span.sequence
            for span, is_full in zip(spans, full, strict=True)
            if is_full or span.sequence in outcome.stopped
        ]
        for request_id in finished:
            self._remove(request_id)
        if finished:
            close_ranks(state)
        return finished

    def _refusal(self, request: Request) -> str | None:
        prompt, output, limits = request.prompt_tokens, request.max_output, self.limits
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

    def _check_answer(self, spans: list[Span], slots: Ints, kept: Ints) -> None:
        state = self.state
        computed, to_come = state.computed[slots].tolist(), (state.max_output - state.output)[slots].tolist()
        for span, start, rest, tokens in zip(spans, computed, to_come, kept.tolist(), strict=True):
            if span.context != start:
                raise ValueError(
                    f"sequence {span.sequence}: the pass starts at {span.context}, not at {start}"
                )
            most = min(span.new, rest) if span.logit_rows else 0
            if tokens > most:
                raise ValueError(
                    f"sequence {span.sequence}: kept {tokens} tokens where at most {most} can be"
                )

    def _fill(self, slot: int, request: Request) -> None:
        state = self.state
        state.known[slot] = request.prompt_tokens
        state.max_output[slot] = request.max_output
        state.computed[slot] = state.output[slot] = state.preempted[slot] = 0
        state.arrival[slot] = self._arrivals
        self._arrivals += 1

    def _remove(self, request_id: int) -> None:
        slot = self._slots.pop(request_id)
        leave(self.state, slot)
        self._sent.pop(slot, None)
        self._vacant.append(slot)

    def _grow(self) -> None:
        slots = len(self._ids)
        self.state = with_more_slots(self.state)
        self._ids = np.concatenate([self._ids, np.zeros(slots, np.int64)])
        self._vacant += range(2 * slots - 1, slots - 1, -1)

    def _block_tables(self, slots: Ints) -> list[tuple[int, ...]]:
        # Tuples are kept: to build them is dear, and only one decode in `block_size` changes its own.
        state, tables = self.state, []
        columns = (slots, state.held[slots], state.preempted[slots])
        for slot, held, preempted in zip(*(column.tolist() for column in columns), strict=True):
            sent_in, blocks = self._sent.get(slot, (0, ()))
            if sent_in != preempted or len(blocks) != held:
                blocks = tuple(state.table[state.seat[slot], :held].tolist())
                self._sent[slot] = preempted, blocks
            tables.append(blocks)
        return tables
