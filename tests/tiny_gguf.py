"""Tiny GGUF files, written by the gguf package itself."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def write_gguf(
    path: Path,
    architecture: str = "llama",
    *,
    tensors: Mapping[str, np.ndarray] | None = None,
    formats: Mapping[str, GGMLQuantizationType] | None = None,
    split_tensors: int = 0,
    **fields: Any,
) -> Path:
    """`formats`: by tensor name, else F32. `fields`: GGUFWriter's add_... methods and their values.

    split_tensors: so many to a file, each named as llama.cpp's gguf-split names it; 0: one file.
    """
    writer = GGUFWriter(str(path), architecture, split_max_tensors=split_tensors)
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for name, values in (tensors or {}).items():
        form = (formats or {}).get(name, GGMLQuantizationType.F32)
        writer.add_tensor(name, gguf.quantize(values.astype(np.float32), form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def sentencepiece_fields(pieces: Iterable[str], user_defined: Sequence[str] = ()) -> dict[str, Any]:
    """A Llama-2-like vocabulary: three control tokens, the bytes, pieces in order of their score."""
    pieces = list(pieces)
    kinds = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}
    kinds |= dict.fromkeys(BYTES, TokenType.BYTE)
    kinds |= dict.fromkeys(user_defined, TokenType.USER_DEFINED)
    kinds |= dict.fromkeys(pieces, TokenType.NORMAL)
    scores = [float(-at) if kind == TokenType.NORMAL else 0.0 for at, kind in enumerate(kinds.values())]
    return {
        "tokenizer_model": "llama",
        "tokenizer_pre": "default",
        "token_list": list(kinds),
        "token_scores": scores,
        "token_types": list(kinds.values()),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unk_token_id": 0,
        "add_bos_token": True,
    }


def shape_fields(**named: int) -> dict[str, Any]:
    """What transformers needs to know of a model before it reads a tokenizer or weights."""
    counts = {"context_length": 64, "embedding_length": 64, "block_count": 2, "feed_forward_length": 96}
    return {
        **counts,
        "head_count": 4,
        "head_count_kv": 2,
        "key_length": 16,
        "value_length": 16,
        "layer_norm_rms_eps": 1e-6,
        "rope_freq_base": 10000.0,
        "name": "tiny",
        **named,
    }
