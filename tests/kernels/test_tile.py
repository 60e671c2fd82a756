"""The tiles that this machine may not be able to run still compile to what they are meant to be."""

import re

import llvmlite.binding as llvm
import pytest
from llvmlite import ir
from numba import types

from twophase.kernels import tile

TYPES = {"bf16": types.uint16, "float32": types.float32}


def assembly(monkeypatch, cpu: str, w: str, x: str, rows: int | None, panels: int) -> str:
    """The tile of `rows` (None: the most) for an AVX-512 processor."""
    monkeypatch.setattr(tile, "REGISTERS", 32)
    monkeypatch.setattr(tile, "REGISTERS_A_VECTOR", 1)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    if not module.triple.startswith("x86_64"):
        pytest.skip("an x86 target")
    operands = tile.Operands(TYPES[w], TYPES[x])
    tile.tile_function(module, operands, rows or operands.max_rows(panels), panels).linkage = "external"
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=cpu, opt=3)
    parsed = llvm.parse_assembly(str(module))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_assembly(parsed)


@pytest.mark.parametrize("panels", [1, 2])
def test_bf16_tile_is_dot_products_without_spills(monkeypatch, panels):
    text = assembly(monkeypatch, "znver4", "bf16", "bf16", None, panels)
    rows = tile.Operands(TYPES["bf16"], TYPES["bf16"]).max_rows(panels)
    assert len(re.findall("vdpbf16ps", text)) == rows * panels
    assert not re.findall(r"zmm\d+.*rsp|rsp.*zmm", text)


def test_float32_tile_uses_whole_registers(monkeypatch):
    text = assembly(monkeypatch, "skylake-avx512", "float32", "float32", 8, 2)
    assert len(re.findall(r"vfmadd.*zmm", text)) == 16
    assert "ymm" not in text
