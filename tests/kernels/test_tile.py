"""The tiles that this machine may not be able to run still compile to what they are meant to be."""

import re

import llvmlite.binding as llvm
import pytest
from llvmlite import ir
from numba import types

from twophase.kernels import byte_operands, operands, pairing, tile

TYPES = {
    "bf16": types.uint16,
    "float32": types.float32,
    "int16": types.int16,
    "int8": types.int8,
    "int4": types.uint8,
    "bytes": types.uint32,
}


def assembly(
    monkeypatch,
    cpu: str,
    w: str,
    x: str,
    rows: int | None,
    panels: int,
    stride: int = 0,
    group: int = 0,
    vnni: bool = True,
    registers: tuple[int, int] = (32, 1),  # and of them, a vector's
) -> str:
    """The tile of `rows` (None: the most), by default for an AVX-512 processor."""
    monkeypatch.setattr(operands, "REGISTERS", registers[0])
    monkeypatch.setattr(operands, "REGISTERS_A_VECTOR", registers[1])
    monkeypatch.setattr(operands, "HAS_INT16_DOT", vnni)
    monkeypatch.setattr(byte_operands, "HAS_BYTE_DOT", vnni)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    if not module.triple.startswith("x86_64"):
        pytest.skip("an x86 target")
    own = pairing.operands_between(TYPES[w], TYPES[x])
    rows = rows or own.max_rows(panels)
    tile.tile_function(module, own, rows, panels, stride, group).linkage = "external"
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=cpu, opt=3)
    parsed = llvm.parse_assembly(str(module))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_assembly(parsed)


@pytest.mark.parametrize("panels", [1, 2])
@pytest.mark.parametrize("stride", [0, 14])
def test_bf16_tile_is_dot_products_without_spills(monkeypatch, panels, stride):
    text = assembly(monkeypatch, "znver4", "bf16", "bf16", None, panels, stride)
    rows = operands.Operands(TYPES["bf16"], TYPES["bf16"]).max_rows(panels)
    steps = 5 if stride else 1  # four at a time where x is packed, and the rest
    assert len(re.findall("vdpbf16ps", text)) == steps * rows * panels
    assert not re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)


def test_float32_tile_uses_whole_registers(monkeypatch):
    text = assembly(monkeypatch, "skylake-avx512", "float32", "float32", 8, 2)
    assert len(re.findall(r"vfmadd.*zmm", text)) == 16
    assert "ymm" not in text


@pytest.mark.parametrize(("w", "parts", "group"), [("int8", 2, 32), ("int4", 4, 4)])
def test_integers_are_dot_products_of_pairs_without_spills(monkeypatch, w, parts, group):
    text = assembly(monkeypatch, "icelake-server", w, "int16", 5, 1, group=group)
    # LLVM splits some of them where that shortens a chain
    assert len(re.findall("vpdpwssd|vpmaddwd", text)) == 5 * parts
    assert not re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)


@pytest.mark.parametrize("rows_and_panels", [(1, 4), (5, 1)])
@pytest.mark.parametrize(("w", "group"), [("int8", 32), ("int4", 4)])
def test_integers_on_avx2_stay_in_registers(monkeypatch, w, group, rows_and_panels):
    monkeypatch.setitem(operands.FEATURES, "avx2", True)
    text = assembly(monkeypatch, "haswell", w, "int16", *rows_and_panels, group=group, vnni=False)
    assert re.findall("vpmaddwd", text)
    assert not re.findall(r"ymm\d+.*rsp|rsp.*ymm", text)


@pytest.mark.parametrize("rows_and_panels", [(1, 4), (None, 1), (None, 2)])
@pytest.mark.parametrize(
    ("w", "parts", "stride", "group"),
    [("int8", 1, 0, 8), ("int4", 2, 0, 4), ("int8", 1, 14, 8), ("bytes", 1, 14, 8)],
)
def test_bytes_are_dot_products_of_four_without_spills(monkeypatch, w, parts, stride, group, rows_and_panels):
    text = assembly(monkeypatch, "icelake-server", w, "int8", *rows_and_panels, stride, group)
    assert len(re.findall("vpdpbusd", text)) >= parts
    assert "vpmadd" not in text
    assert len(re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)) <= 4  # at the end of a group


@pytest.mark.parametrize("rows_and_panels", [(1, 2), (None, 1)])
@pytest.mark.parametrize(("w", "stride", "group"), [("int8", 0, 8), ("int4", 0, 4), ("bytes", 6, 8)])
def test_bytes_on_avx2_stay_in_registers(monkeypatch, w, stride, group, rows_and_panels):
    monkeypatch.setattr(byte_operands, "HAS_BYTE_PAIRS", True)
    text = assembly(
        monkeypatch, "haswell", w, "int8", *rows_and_panels, stride, group, vnni=False, registers=(16, 2)
    )
    assert re.findall("vpmaddubsw", text)
    assert len(re.findall(r"ymm\d+.*rsp|rsp.*ymm", text)) <= 4  # at the end of a group
