"""The owner of the books: requests and outcomes in, passes out."""

from twophase.cost.pass_ import Pass, Span
from twophase.scheduler.policy import first_come_first_served
from twophase.scheduler.request import Limits, Outcome, Request
from twophase.scheduler.state import (
    N_FREE,
    N_PREEMPTIONS,
    N_RUNNING,
    N_WAITING,
    RUNNING,
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
        self._ids = [0] * 64  # by slot
        self._vacant = list(range(64))[::-1]
        self._arrivals = 0
        self._blocks: dict[int, tuple[int, tuple[int, ...]]] = {}  # by slot: preemptions, blocks last sent

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
        spans = first_come_first_served(state, self.limits.budget, self.limits.block_size)
        picked = state.picked[:spans]
        contexts = state.computed[picked]
        rows = state.rows[:spans]
        reaches_end = contexts + rows >= state.known[picked]
        columns = (a.tolist() for a in (picked, rows, contexts, reaches_end))
        return (
            Pass(
                tuple(
                    Span(self._ids[slot], new, context, self._block_table(slot), last)
                    for slot, new, context, last in zip(*columns, strict=True)
                )
            )
            if spans
            else None
        )

    def commit(self, pass_: Pass, outcome: Outcome) -> list[int]:
        """Take in what the pass gave. Returns the ids that are finished; their blocks are free again.

        ValueError where the outcome doesn't answer the pass, or the pass isn't the last one scheduled.
        """
        state, finished = self.state, []
        for span in pass_.spans:
            slot = self._slots.get(span.sequence)
            if slot is None or state.status[slot] != RUNNING:  # cancelled in flight (and its id used again)
                continue
            kept = len(outcome.tokens.get(span.sequence, ()))
            self._check_answer(span, slot, kept)
            advance(state, slot, span.context + span.new, kept)
            if span.sequence in outcome.stopped or state.output[slot] >= state.max_output[slot]:
                self._remove(span.sequence)
                finished.append(span.sequence)
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

    def _check_answer(self, span: Span, slot: int, kept: int) -> None:
        state, name = self.state, f"sequence {span.sequence}"
        if span.context != state.computed[slot]:
            raise ValueError(f"{name}: the pass starts at {span.context}, not at {state.computed[slot]}")
        room = min(span.new, int(state.max_output[slot] - state.output[slot])) if span.wants_logits else 0
        if kept > room:
            raise ValueError(f"{name}: kept {kept} tokens where at most {room} can be")

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
        self._blocks.pop(slot, None)
        self._vacant.append(slot)

    def _grow(self) -> None:
        slots = len(self._ids)
        self.state = with_more_slots(self.state)
        self._ids += [0] * slots
        self._vacant += range(2 * slots - 1, slots - 1, -1)

    def _block_table(self, slot: int) -> tuple[int, ...]:
        # Building the tuples is most of a pass's cost, and only one in `block_size` decodes changes one.
        state = self.state
        held, preempted = int(state.held[slot]), int(state.preempted[slot])
        sent_in, blocks = self._blocks.get(slot, (0, ()))
        if sent_in != preempted or len(blocks) != held:
            blocks = tuple(state.table[state.seat[slot], :held].tolist())
            self._blocks[slot] = preempted, blocks
        return blocks
