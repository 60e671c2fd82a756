"""Our own server: vLLM's names under any prefix, and what each phase took beside its floor."""

from dataclasses import replace

from twophase.counters.engines.table import one
from twophase.counters.engines.vllm import VLLM

PHASES = ("prefill", "decode")

OWN = replace(
    VLLM,
    name="twophase",
    title="twophase",
    prefixes=(),  # whatever stands before its mark: --metrics-prefix
    mark="phase_floor_seconds_total",
    counters={
        **{name: choices for name, choices in VLLM.counters.items() if name != "decode_passes"},
        **{f"{phase}_s": one("phase_seconds_total", phase=phase) for phase in PHASES},
        **{f"{phase}_floor_s": one("phase_floor_seconds_total", phase=phase) for phase in PHASES},
        "flops": one("phase_flops_total"),
        "read_bytes": one("phase_bytes_total"),
    },
    exact="the engine's own clock; a pass with both phases is shared as their floors",
    notes=(),
)
