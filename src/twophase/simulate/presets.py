"""Engines by name: whose policy, whose limits of a pass, whose memory and host overheads."""

from dataclasses import dataclass

from twophase.errors import InputError, nearest
from twophase.fit.reserves import Engine, profiled
from twophase.hardware.accelerator import Accelerator

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Preset:
    """None: as the engine chooses for an accelerator, see `limits_for`."""

    policy: str
    engine: str  # whose overheads: of twophase.calibration
    memory: Engine  # whose memory management: of twophase.fit
    max_tokens: int | None = None  # rows of a pass
    max_sequences: int | None = None
    about: str = ""


PRESETS = {
    "vllm": Preset(
        *("vllm", "vllm", "vllm"), about="vLLM V1: who runs goes on, prompts in chunks beside decodes"
    ),
    "sglang": Preset(*("sglang", "sglang", "sglang"), about="SGLang: prompts first, in passes of their own"),
    "ours": Preset(
        *("decode-first", "none", "plain", 2048, 64), about="this project's engine, without host overheads"
    ),
    "static": Preset(
        *("static", "vllm", "vllm", None, 64), about="batches that are filled once and run to their end"
    ),
    "prefill-first": Preset(
        *("prefill-first", "vllm", "vllm"), about="whole prompts first, decodes when nobody waits"
    ),
}


def preset_named(name: str) -> Preset:
    if name not in PRESETS:
        raise InputError(f"no preset {name!r}; there are {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    return PRESETS[name]


def limits_for(preset: Preset, accelerator: Accelerator) -> tuple[int, int]:
    """(rows of a pass, sequences) where the user says none: the engine's defaults for so much memory."""
    tokens, sequences = profiled(accelerator)
    if preset.engine == "sglang":
        tokens = chunk_of_sglang(accelerator)
    return preset.max_tokens or tokens, preset.max_sequences or sequences


def chunk_of_sglang(accelerator: Accelerator) -> int:
    """chunked_prefill_size by memory, as server_args.py of SGLang 0.5 sets it."""
    memory = accelerator.marketed_bytes / 1e9
    for below, chunk in ((35, 2048), (60, 4096), (160, 8192)):
        if memory < below:
            return chunk
    return 16384
