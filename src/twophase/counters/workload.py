"""Which of the textbook's workloads the traffic resembles, by its mean lengths."""

from dataclasses import dataclass
from typing import Literal

Class = Literal["chat", "retrieval-augmented", "summarisation or agent"]

HUNDREDS, TEN_THOUSANDS = 1_000, 10_000  # tokens: below, chats; from there on, whole documents and tool loops
SHORT, LONG = 100, 1_000  # tokens of an answer

SAID: dict[Class, str] = {
    "chat": "hundreds of tokens in and out: decode dominates",
    "retrieval-augmented": "thousands in, hundreds out: batch size decides; prefill grows with documents",
    "summarisation or agent": "tens of thousands in, tens to hundreds out: prefill dominates",
}


@dataclass(frozen=True, slots=True)
class Workload:
    kind: Class
    says: str


def workload(prompt_tokens: float | None, output_tokens: float | None) -> Workload | None:
    """Means over requests; None where a length is not known."""
    if not prompt_tokens or not output_tokens:
        return None
    kind: Class = "chat"
    if prompt_tokens >= TEN_THOUSANDS:
        kind = "summarisation or agent"
    elif prompt_tokens >= HUNDREDS:
        kind = "retrieval-augmented"
    says = SAID[kind]
    if output_tokens >= LONG:
        says += "; the answers are longer than that, which adds to decode"
    elif output_tokens < SHORT and kind != "summarisation or agent":
        says += "; the answers are shorter than that, which takes from decode"
    return Workload(kind, says)
