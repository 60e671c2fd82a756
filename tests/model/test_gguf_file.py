"""Against the gguf package: its writer's files, read by its reader."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from twophase.errors import InputError
from twophase.model.gguf_file import read_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 2**32 - 1)
    writer.add_int32("i32", -(2**31))
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -(2**63))
    writer.add_float32("f32", 1e-6)
    writer.add_float64("f64", 1 / 3)
    writer.add_bool("yes", True)
    writer.add_string("text", "naïve 日本 🙂")
    writer.add_array("strings", ["", "a", "▁日本", "\n"])
    writer.add_array("integers", [1, -2, 3])
    writer.add_array("floats", [0.5, -1000.0])
    writer.add_custom_alignment(64)
    random = np.random.default_rng(0)
    writer.add_tensor("vector", random.normal(size=7).astype(np.float32))
    writer.add_tensor("matrix", random.normal(size=(3, 5)).astype(np.float16))
    writer.add_tensor(
        "blocks", random.integers(0, 99, (2, 34 * 2), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_and_tensors_are_as_gguf_reads_them(path: Path) -> None:
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert {name: list(v) if isinstance(v, np.ndarray) else v for name, v in ours.metadata.items()} == fields
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        place = ours.tensors[tensor.name]
        assert place.shape == tuple(reversed(tensor.shape.tolist()))
        assert place.type_id == tensor.tensor_type
        assert place.offset == tensor.data_offset


def test_a_header_cut_off_anywhere(path: Path) -> None:
    content = path.read_bytes()
    header = min(place.offset for place in read_gguf(path).tensors.values())
    last_entry = content.rindex(b"blocks") + len(b"blocks") + 4 + 2 * 8 + 4 + 8
    assert last_entry <= header
    for size in range(last_entry):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=r"tiny\.gguf is (cut off|empty|not a GGUF file)"):
            read_gguf(path)


@pytest.mark.parametrize(
    ("at", "put", "said"),
    [
        (0, b"GGML", "not a GGUF file"),
        (4, (1).to_bytes(4, "little"), "version 1"),
        (4, (3).to_bytes(4, "big"), "version 50331648"),
        (8, (2**63).to_bytes(8, "little"), "cut off"),
        (16, (2**63).to_bytes(8, "little"), "cut off"),
        (24, (2**64 - 1).to_bytes(8, "little"), "cut off"),
    ],
)
def test_damaged_headers(at: int, put: bytes, said: str, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:at] + put + content[at + len(put) :])
    with pytest.raises(InputError, match=said):
        read_gguf(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(InputError, match="directory"):
        read_gguf(tmp_path)
