"""The tiles that this machine may not be able to run still compile to what they are meant to be."""

import re

import llvmlite.binding as llvm
import pytest
from llvmlite import ir
from numba import types

from twophase.kernels import operands, tile

TYPES = {"bf16": types.uint16, "float32": types.float32, "int8": types.int8, "int4": types.uint8}


def assembly(
    monkeypatch, cpu: str, w: str, x: str, rows: int | None, panels: int, stride: int = 0, group: int = 0
) -> str:
    """The tile of `rows` (None: the most) for an AVX-512 processor."""
    monkeypatch.setattr(operands, "REGISTERS", 32)
    monkeypatch.setattr(operands, "REGISTERS_A_VECTOR", 1)
    monkeypatch.setitem(operands.FEATURES, "avx512bw", True)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    if not module.triple.startswith("x86_64"):
        pytest.skip("an x86 target")
    own = operands.Operands(TYPES[w], TYPES[x])
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
    assert len(re.findall("vdpbf16ps", text)) == rows * panels
    assert not re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)


def test_float32_tile_uses_whole_registers(monkeypatch):
    text = assembly(monkeypatch, "skylake-avx512", "float32", "float32", 8, 2)
    assert len(re.findall(r"vfmadd.*zmm", text)) == 16
    assert "ymm" not in text


def test_int4_becomes_bf16_by_one_permutation(monkeypatch):
    text = assembly(monkeypatch, "znver4", "int4", "bf16", 4, 1, group=16)
    assert len(re.findall("vpermw", text)) == 4
    assert len(re.findall("vdpbf16ps", text)) == 16


def test_int8_in_float32_uses_whole_registers_without_spills(monkeypatch):
    text = assembly(monkeypatch, "skylake-avx512", "int8", "float32", 16, 1, group=32)
    assert len(re.findall(r"vfmadd.*zmm", text)) == 16 * 4 + 16
    assert not re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)
