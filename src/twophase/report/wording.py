"""The sentences that the terminal and the page share."""

from collections.abc import Mapping

from twophase.advise.diagnosis import Advice, Bend, Bound, Diagnosis, Verdict
from twophase.units import count, duration, significant

LIMITS: dict[Bound, str] = {
    "compute": "arithmetic limits it",
    "memory": "memory bandwidth limits it",
    "communication": "communication limits it",
    "overhead": "the software's overhead limits it",
}


def label(diagnosis: Diagnosis) -> str:
    """The model's name, never without saying that its weights are random."""
    return diagnosis.model + (" (random weights)" if diagnosis.weights == "random" else "")


def headline(verdict: Verdict) -> str:
    return f"Work on {verdict.dominant}: {LIMITS[verdict.bound]}"


def scope(each: Advice) -> str:
    """What a lever's number must not be taken for; empty where it is simply this request's gain."""
    if each.throughput_gain is not None:
        return "requests served a second; none gets faster"
    return "a smaller request" if each.kind == "workload" else ""


ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "ours": "ours"}
ELSEWHERE = (
    "Chunks, policies, more devices and phases apart act on a load, not on one request alone: "
    "twophase advise MODEL --gpu NAME simulates them."
)


def price_of(price: Mapping[str, str]) -> str:
    return "; ".join(price.values())


def turned_on(flags: Mapping[str, str]) -> str:
    """How to turn a lever on, engine by engine."""
    return "; ".join(f"{ENGINES[engine]} {flag}" for engine, flag in flags.items())


def turning_points(diagnosis: Diagnosis) -> tuple[str, str]:
    """Where the TTFT curve bends, and where its floor becomes arithmetic."""
    fit, longest = diagnosis.ttft_fit, max(row.prompt_tokens for row in diagnosis.prefill)
    if fit.bend_prompt_tokens is None:
        bend = (
            f"TTFT does not bend upward up to {count(longest)} tokens: attention's share stays below a tenth."
        )
    else:
        bend = (
            f"TTFT bends upward from about {count(fit.bend_prompt_tokens)} tokens: "
            f"there attention adds a tenth, then more."
        )
    return (
        bend,
        f"The floor is arithmetic from about {count(fit.compute_bound_from_tokens)} prompt tokens on.",
    )


def fit_formula(fit: Bend) -> str:
    """The fitted curve with its units; n counts prompt tokens."""
    terms = [
        duration(fit.overhead_s),
        f"{duration(fit.linear_s_per_token)} · n",
        f"{significant(fit.quadratic_s_per_token2 * 1e9)} ns · n²",
    ]
    return f"Fit from {count(fit.fitted_from_tokens)} tokens on: TTFT = {' + '.join(terms)}"
