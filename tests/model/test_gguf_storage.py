"""In which type a GGUF file stores each weight, by hand; and files that llama.cpp split."""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from twophase.errors import InputError
from twophase.model.catalogue import load_model, load_spec
from twophase.model.formats import Format
from twophase.model.gguf_file import read_gguf
from twophase.model.gguf_storage import gguf_storage
from twophase.model.stored import weights_bytes

D, D_FF, VOCABULARY = 256, 512, 96
LAYER = {
    **{"attn_norm": (Type.F32, (D,)), "ffn_norm": (Type.F32, (D,))},
    **{"attn_q": (Type.Q4_K, (D, D)), "attn_k": (Type.Q4_K, (128, D)), "attn_v": (Type.Q6_K, (128, D))},
    **{"attn_output": (Type.Q4_K, (D, D)), "ffn_gate": (Type.Q4_K, (D_FF, D))},
    **{"ffn_up": (Type.Q4_K, (D_FF, D)), "ffn_down": (Type.Q4_K, (D, D_FF))},
}
TENSORS = {
    "token_embd.weight": (Type.Q6_K, (VOCABULARY, D)),
    **{f"blk.{i}.{name}.weight": own for i in range(2) for name, own in LAYER.items()},
    "blk.1.ffn_down.weight": (Type.Q6_K, (D, D_FF)),
    "output_norm.weight": (Type.F32, (D,)),
    "output.weight": (Type.Q8_0, (VOCABULARY, D)),
}
COUNTS = {
    **{"embedding_length": D, "feed_forward_length": D_FF, "block_count": 2, "context_length": 64},
    **{"attention.head_count": 4, "attention.head_count_kv": 2},
}


def write(path: Path, tensors: Mapping[str, tuple[Type, tuple[int, ...]]] = TENSORS) -> Path:
    writer = gguf.GGUFWriter(str(path), "llama")
    add(writer, tensors)
    for call in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        call()
    writer.close()
    return path


def add(writer: gguf.GGUFWriter, tensors: Mapping[str, tuple[Type, tuple[int, ...]]]) -> None:
    for key, value in COUNTS.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, (kind, shape) in tensors.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((*shape[:-1], shape[-1] // elements * size), np.uint8)
        writer.add_tensor(name, data, raw_dtype=kind)


def split(folder: Path) -> list[Path]:
    """As gguf-split deals it out, nine tensors a file."""
    writer = gguf.GGUFWriter(None, "llama", split_max_tensors=9)
    add(writer, TENSORS)
    writer.write_header_to_file(folder / "tiny.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob("*.gguf"))


def test_each_weight_has_its_tensors_type(tmp_path: Path) -> None:
    storage = gguf_storage(read_gguf(write(tmp_path / "tiny.gguf")))
    formats: dict[str, Format] = {
        name: storage.format_of(f"model.{name}")
        for name in ("embed_tokens", "layers.0.self_attn.v_proj", "layers.0.mlp.down_proj", "norm")
    }
    assert [each.name for each in formats.values()] == ["q6_k", "q6_k", "q4_k", "float32"]
    assert storage.format_of("model.layers.1.mlp.down_proj").name == "q6_k"
    assert storage.format_of("lm_head").name == "q8_0"
    assert (storage.name, storage.kv) == ("q4_k", None)


def test_bytes_by_hand(tmp_path: Path) -> None:
    """144 bytes hold 256 elements of Q4_K, 210 of Q6_K; 34 hold 32 of Q8_0."""
    q4_k = 2 * (2 * D * D + 128 * D + 2 * D_FF * D) + D_FF * D
    q6_k = VOCABULARY * D + 2 * 128 * D + D_FF * D
    norms = 5 * D * 4
    model = load_model(str(write(tmp_path / "tiny.gguf")))
    by_hand = q4_k * 144 // 256 + q6_k * 210 // 256 + VOCABULARY * D * 34 // 32 + norms
    assert weights_bytes(model.spec, model.storage) == by_hand


def test_a_split_model_is_whole_from_any_of_its_files(tmp_path: Path) -> None:
    whole = load_model(str(write(tmp_path / "whole.gguf")))
    (tmp_path / "parts").mkdir()
    parts = split(tmp_path / "parts")
    assert [part.name for part in parts] == [f"tiny-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for part in parts:
        model = load_model(str(part))
        assert model.spec.layers == whole.spec.layers
        assert not model.spec.tied_embeddings  # the head lies in the last file
        assert weights_bytes(model.spec, model.storage) == weights_bytes(whole.spec, whole.storage)


def test_a_part_that_is_missing_or_renamed_is_named(tmp_path: Path) -> None:
    first, second, third = split(tmp_path)
    third.unlink()
    with pytest.raises(InputError, match=r"tiny-00003-of-00003\.gguf does not exist: it is part 3 of the 3"):
        load_spec(str(second))
    with pytest.raises(InputError, match=r"its name must end in -00001-of-00003\.gguf"):
        load_spec(str(first.rename(tmp_path / "first.gguf")))


def test_a_part_that_is_cut_off_is_named(tmp_path: Path) -> None:
    first, second, _ = split(tmp_path)
    content = second.read_bytes()
    second.write_bytes(content[:-1000])
    with pytest.raises(InputError, match=r"tiny-00002-of-00003\.gguf is cut off"):
        load_spec(str(first))


def test_what_cant_be_stored_is_refused(tmp_path: Path) -> None:
    odd = TENSORS | {"blk.0.attn_q.weight": (Type.I8, (D, D))}
    with pytest.raises(
        InputError, match=r"tensor blk\.0\.attn_q\.weight is of GGML type 24, which is not known"
    ):
        load_model(str(write(tmp_path / "odd.gguf", odd)))
    outside = {name: own for name, own in TENSORS.items() if not name.startswith("blk.")}
    with pytest.raises(InputError, match="holds no layer's matrices"):
        load_model(str(write(tmp_path / "outside.gguf", outside)))
