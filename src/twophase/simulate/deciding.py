"""The policy by its number: in a compiled loop a function can't be looked up by name."""

from twophase.scheduler.policy import (
    POLICIES,
    decode_first,
    prefill_first,
    priority,
    sglang,
    shortest_first,
    static,
    vllm,
)
from twophase.scheduler.state import State

NUMBERS = {name: number for number, name in enumerate(POLICIES)}


def decide(state: State, policy: int) -> None:
    if policy == 0:
        decode_first(state)
    elif policy == 1:
        prefill_first(state)
    elif policy == 2:
        static(state)
    elif policy == 3:
        priority(state)
    elif policy == 4:
        shortest_first(state)
    elif policy == 5:
        vllm(state)
    elif policy == 6:
        sglang(state)
