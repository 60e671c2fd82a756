"""What a meter said of a scenario, held against what was played."""

from dataclasses import dataclass

from twophase.meter.conformance.scenario import Measured, Scenario

TTFT_WITHIN_S = 0.012
TPOT_WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    scenario: Scenario
    measured: Measured | None
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def faults(scenario: Scenario, measured: Measured, late_s: float = 0.0) -> list[str]:
    """What is wrong, a phrase each. `late_s`: how late the scenario was played."""
    truth = scenario.truth
    if measured.outcome not in truth.outcomes:
        return [f"outcome {measured.outcome}, not {truth.outcomes[0]}"]
    if truth.outcomes[0] != "finished":
        return []
    found = []
    steps = max(truth.output_tokens) - 1
    for name, said_s, true_s, within_s in (
        ("ttft", measured.ttft_s, truth.ttft_s, TTFT_WITHIN_S + late_s),
        ("tpot", measured.tpot_s, truth.tpot_s, TPOT_WITHIN * truth.tpot_s + late_s / min(steps, 15)),
    ):
        if said_s is None:
            found.append(f"no {name}")
        elif not abs(said_s - true_s) <= within_s:
            found.append(f"{name} {said_s * 1e3:.1f} ms, not {true_s * 1e3:.1f}")
    said = measured.output_tokens
    if said is None:
        found.append("no output_tokens")
    elif not any(abs(said - right) < 0.5 for right in truth.output_tokens):
        found.append(f"{said:g} tokens, not {truth.output_tokens[0]}")
    return found
