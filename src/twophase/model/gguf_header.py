"""ModelSpec from a GGUF file's header. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.model.gguf_file import GGUFFile, TensorPlace, read_gguf
from twophase.model.keys import LARGEST
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec

FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}
GEMMA_LOCAL_LAYERS = 5  # then a global one
GEMMA_LOCAL_THETA = 10_000.0
LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_ORIGINAL = 1.0, 4.0, 8192  # of every Llama 3.1, 3.2 and 3.3
MOST_LAYERS = 10_000
F32 = 0
# Elements and bytes of a block, by GGML's number of the type (ggml.c, type_traits).
BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2)},
    **{2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 20: (32, 18), 39: (32, 17)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 29: (256, 56), 34: (256, 54), 35: (256, 66)},
}


def read_gguf_spec(path: Path) -> ModelSpec:
    """InputError where the file is damaged or cut off, or its architecture or a needed key is not known."""
    file = read_gguf(path)
    size = path.stat().st_size
    for name, place in file.tensors.items():
        if (end := place.offset + byte_count(place)) > size:
            raise InputError(f"{path} is cut off: it has {size} bytes, and tensor {name} ends at {end}")
    return spec_from_gguf(file)


def byte_count(place: TensorPlace) -> int:
    """Bytes that a tensor takes in its file; 0 for a type that is not known here."""
    elements, bytes_ = BLOCKS.get(place.type_id, (1, 0))
    return math.prod(place.shape) // elements * bytes_


def spec_from_gguf(file: GGUFFile) -> ModelSpec:
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        known, named = ", ".join(FAMILIES), _in_line(architecture)
        raise InputError(f"{file.path}: architecture {named} is not known here; known are {known}")
    header = Header(file, architecture)
    gemma = architecture == "gemma3"
    d_model, heads = header.count("embedding_length"), header.count("attention.head_count")
    kv_heads = header.count("attention.head_count_kv", heads)
    head_dim = header.count("attention.key_length", d_model // heads)
    if heads % kv_heads or head_dim % 2:
        raise InputError(f"{file.path}: {heads} heads of {head_dim} over {kv_heads} key-value heads can't be")
    layers = header.count("block_count", most=MOST_LAYERS)
    kinds = [gemma and (i + 1) % (GEMMA_LOCAL_LAYERS + 1) != 0 for i in range(layers)]
    mlp = MLP(header.count("feed_forward_length"), "gelu_tanh" if gemma else "silu")

    def attention(slides: bool) -> Attention:
        return Attention(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            scale=_scale(gemma, layers, d_model, heads, head_dim),
            rope=Rope(GEMMA_LOCAL_THETA) if slides else header.rope(head_dim),
            window=header.count("attention.sliding_window") if slides else None,
            qkv_bias="blk.0.attn_q.bias" in file.tensors,
            out_bias="blk.0.attn_output.bias" in file.tensors,
            qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        )

    name = file.metadata.get("general.name")
    return ModelSpec(
        name=name if isinstance(name, str) and name else file.path.stem,
        family=FAMILIES[architecture],
        vocab_size=header.vocabulary(),
        d_model=d_model,
        layers=tuple(Layer((attention(slides),), mlp, "around" if gemma else "before") for slides in kinds),
        context_length=header.count("context_length"),
        tied_embeddings="output.weight" not in file.tensors,
        norm_eps=header.number("attention.layer_norm_rms_epsilon"),
        embedding_scale=math.sqrt(d_model) if gemma else 1.0,
    )


def _in_line(value: Any) -> str:
    """A value as an error shows it, short and on one line, which NumPy's arrays are not."""
    return f"{' '.join(repr(value).split()):.80}"


def _scale(gemma: bool, layers: int, d_model: int, heads: int, head_dim: int) -> float:
    """1/sqrt(head_dim), but for Gemma 3 27B, whose query_pre_attn_scalar the header does not hold."""
    if gemma and layers == 62:
        return float((d_model // heads) ** -0.5)
    return float(head_dim**-0.5)


@dataclass(frozen=True, slots=True)
class Header:
    """An architecture's own keys, checked."""

    file: GGUFFile
    architecture: str

    def count(self, key: str, otherwise: int | None = None, most: int = LARGEST) -> int:
        value = self._value(key, otherwise)
        if isinstance(value, np.ndarray | list):
            value = self._same(key, list(value))
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
            raise InputError(
                f"{self._name(key)} is {_in_line(value)}; it must be a whole number from 1 to {most}"
            )
        return int(value)

    def number(self, key: str, otherwise: float | None = None) -> float:
        value = self._value(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise InputError(f"{self._name(key)} is {_in_line(value)}; it must be a number above zero")
        # Stored as float32: the shortest decimal that reads back as it is what was meant.
        return float(str(np.float32(value)))

    def rope(self, head_dim: int) -> Rope:
        theta = self.number("rope.freq_base", 10_000.0)
        kind = str(self.file.metadata.get(f"{self.architecture}.rope.scaling.type", "none"))
        if "rope_freqs.weight" in self.file.tensors:
            return _rope_of_table(self.file, theta, head_dim)
        if kind == "none":
            return Rope(theta)
        if kind == "linear":
            return Rope(theta, "linear", self.number("rope.scaling.factor"))
        raise InputError(
            f"{self.file.path}: rope scaling {_in_line(kind)} is not known; known are none and linear"
        )

    def vocabulary(self) -> int:
        tensor = self.file.tensors.get("token_embd.weight")
        if tensor is None or not tensor.shape:
            raise InputError(f"{self.file.path} has no matrix token_embd.weight")
        return tensor.shape[0]

    def _value(self, key: str, otherwise: Any) -> Any:
        value = self.file.metadata.get(f"{self.architecture}.{key}", otherwise)
        if value is None:
            raise InputError(f"{self._name(key)} is missing")
        return value

    def _same(self, key: str, values: list[int]) -> int:
        if len(set(values)) != 1:
            raise InputError(f"{self._name(key)} differs from layer to layer, which is not known here")
        return values[0]

    def _name(self, key: str) -> str:
        return f"{self.file.path}: {self.architecture}.{key}"


def _rope_of_table(file: GGUFFile, theta: float, head_dim: int) -> Rope:
    """Llama 3's scaling is stored as its result, by how much each frequency is divided."""
    place = file.tensors["rope_freqs.weight"]
    count = math.prod(place.shape)
    stored = np.zeros(1, "<f4")
    if place.type_id == F32 and count == head_dim // 2:
        stored = np.fromfile(file.path, "<f4", count, offset=place.offset)
    if 1 < stored.max() < np.inf:
        rope = Rope(theta, "llama3", float(f"{stored.max():.5g}"), LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_ORIGINAL)
        if np.allclose(stored, llama3_divisors(rope, head_dim), rtol=1e-4):
            return rope
    raise InputError(
        f"{file.path} stretches its rotary embedding by a table (rope_freqs.weight) that is not Llama 3's"
    )


def llama3_divisors(rope: Rope, head_dim: int) -> NDArray[np.float64]:
    """[head_dim / 2]: what each rotary frequency is divided by. Grattafiori et al. 2024 (Llama 3)."""
    frequency = rope.theta ** (-np.arange(0, head_dim, 2) / head_dim)
    turns = rope.original_context * frequency / (2 * np.pi)  # within the context trained on
    low, high = rope.low_freq_factor, rope.high_freq_factor
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)  # 1: the frequency stays as it is
    return np.asarray(1 / ((1 - kept) / rope.factor + kept))
