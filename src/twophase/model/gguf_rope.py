"""The rotary embedding of a GGUF header, as config.json's rope_parameters."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.model.gguf_keys import Header, in_line
from twophase.model.mixers import Rope

TABLE = "rope_freqs.weight"
FACTORS = {"short_factor": "rope_factors_short.weight", "long_factor": "rope_factors_long.weight"}
F32 = 0  # as GGML numbers its types
# (low_freq_factor, high_freq_factor, original context) of Llama 3.1, 3.2 and 3.3, and of Llama 4 Scout.
LLAMA3 = ((1.0, 4.0, 8192), (1.0, 1.0, 8192))
UNROTATED = 1e29  # Gemma 4's table divides by 1e30 what is not rotated


def rope_parameters(header: Header, head_dim: int) -> dict[str, Any]:
    """head_dim: of the heads that are rotated. InputError where the scaling is none that is known."""
    theta = {"rope_theta": header.number("rope.freq_base", 10_000.0)}
    rotated = header.optional("rope.dimension_count")
    if rotated is not None:
        if rotated > head_dim:
            raise InputError(
                f"{header.name('rope.dimension_count')} is {rotated}; a head has only {head_dim} dimensions"
            )
        theta["partial_rotary_factor"] = rotated / head_dim
    return theta | _scaling(header, theta["rope_theta"], rotated or head_dim)


def proportional_rope(header: Header, head_dim: int) -> dict[str, Any]:
    """Gemma 4's full layers: a share of each head is rotated, by their table the rest is not."""
    theta = header.number("rope.freq_base", 1e6)
    share = float(np.mean(_table(header, head_dim) < UNROTATED))
    if not share:
        raise InputError(f"{header.file.path}: its table {TABLE} rotates nothing")
    return {"rope_type": "proportional", "rope_theta": theta, "partial_rotary_factor": share}


def _scaling(header: Header, theta: float, rotated: int) -> dict[str, Any]:
    kind = header.text("rope.scaling.type", "none")
    if TABLE in header.file.tensors:
        return _llama3(header, theta, rotated)
    if FACTORS["long_factor"] in header.file.tensors or kind == "longrope":
        return _longrope(header, rotated)
    if kind == "none":
        return {"rope_type": "default"}
    if kind not in ("linear", "yarn"):
        raise InputError(
            f"{header.file.path}: rope scaling {in_line(kind)} is not known; "
            "known are none, linear, yarn and longrope"
        )
    scaling: dict[str, Any] = {"rope_type": kind, "factor": header.number("rope.scaling.factor")}
    if header.has("rope.scaling.yarn_log_multiplier"):  # a tenth of DeepSeek's mscale_all_dim
        scaling["mscale_all_dim"] = 10 * header.number("rope.scaling.yarn_log_multiplier")
    return scaling


def _longrope(header: Header, rotated: int) -> dict[str, Any]:
    """Phi-3's factors, as config.json has them; without the tables a file can be counted, not run."""
    found: dict[str, Any] = {"rope_type": "longrope"}
    for key, name in FACTORS.items():
        factors = _table(header, rotated, name) if name in header.file.tensors else np.zeros(1, "<f4")
        if factors.all():
            found[key] = factors.tolist()
    original = header.optional("rope.scaling.original_context_length")
    if original is not None:
        found["original_max_position_embeddings"] = original
    if header.has("rope.scaling.attn_factor"):
        found["attention_factor"] = header.number("rope.scaling.attn_factor")
    return found


def _llama3(header: Header, theta: float, rotated: int) -> dict[str, Any]:
    """Llama 3's scaling is stored as its result, by how much each frequency is divided."""
    stored = _table(header, rotated)
    if 1 < stored.max() < np.inf:
        factor = float(f"{stored.max():.5g}")
        for low, high, original in LLAMA3:
            rope = Rope(theta, "llama3", factor, low, high, original)
            if np.allclose(stored, llama3_divisors(rope, rotated), rtol=1e-4):
                known = {"low_freq_factor": low, "high_freq_factor": high}
                return {
                    **{"rope_type": "llama3", "factor": factor, **known},
                    "original_max_position_embeddings": original,
                }
    raise InputError(
        f"{header.file.path} stretches its rotary embedding by a table ({TABLE}) that is not Llama 3's"
    )


def _table(header: Header, rotated: int, name: str = TABLE) -> NDArray[np.float32]:
    """[rotated / 2]; a single zero where the table is of another length or type."""
    place = header.file.tensors.get(name)
    if place is None:
        raise InputError(f"{header.file.path} has no table {name}")
    count = math.prod(place.shape)
    if place.type_id != F32 or count != rotated // 2:
        return np.zeros(1, "<f4")
    return np.fromfile(header.file.path, "<f4", count, offset=place.offset)


def llama3_divisors(rope: Rope, head_dim: int) -> NDArray[np.float64]:
    """[head_dim / 2]: what each rotary frequency is divided by. Grattafiori et al. 2024 (Llama 3)."""
    frequency = rope.theta ** (-np.arange(0, head_dim, 2) / head_dim)
    turns = rope.original_context * frequency / (2 * np.pi)  # within the context trained on
    low, high = rope.low_freq_factor, rope.high_freq_factor
    if low == high:
        return np.where(turns > low, 1.0, rope.factor)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)  # 1: the frequency stays as it is
    return np.asarray(1 / ((1 - kept) / rope.factor + kept))
