"""The catalogue against datasheet figures written here by hand."""

import pytest

from twophase.errors import InputError
from twophase.hardware.catalogue import accelerators, load_accelerator

# 16-bit dense TFLOP/s, TB/s, GB, from the vendors' datasheets
DATASHEETS = {
    "h100-sxm": (989, 3.35, 80),
    "h200": (989, 4.8, 141),
    "b200": (2250, 8.0, 180),
    "a100-80gb": (312, 2.04, 80),
    "a100-40gb": (312, 1.555, 40),
    "l4": (121, 0.3, 24),
    "l40s": (362, 0.864, 48),
    "a10": (125, 0.6, 24),
    "t4": (65, 0.32, 16),
    "rtx-4090": (165.2, 1.008, 24),
    "mi300x": (1307.4, 5.3, 192),
}


@pytest.mark.parametrize("name", DATASHEETS)
def test_figures_are_the_datasheets(name: str) -> None:
    tflops, terabytes, gigabytes = DATASHEETS[name]
    own = load_accelerator(name)
    assert own.peak_flops == pytest.approx(tflops * 1e12)
    assert own.bandwidth == pytest.approx(terabytes * 1e12)
    assert own.memory_bytes == pytest.approx(gigabytes * 1e9)


def test_ridge_points_of_the_textbook() -> None:
    assert round(load_accelerator("h100-sxm").ridge) == 295
    assert round(load_accelerator("a100-80gb").ridge) == 153


@pytest.mark.parametrize("name", accelerators())
def test_every_entry_is_whole_and_plausible(name: str) -> None:
    own = load_accelerator(name)
    assert own.title and own.vendor and own.source
    assert set(own.flops) <= {"bf16", "fp16", "fp8", "int8", "fp4"}
    assert 30 < own.ridge < 700  # a sparse peak or a wrong unit would leave this range
    assert 16e9 <= own.memory_bytes <= 300e9
    for narrow in ("fp8", "int8"):
        if narrow in own.flops:  # half the width, twice the peak
            assert own.flops[narrow] == pytest.approx(2 * own.peak_flops, rel=0.02)


def test_a_name_is_found_in_any_case() -> None:
    assert load_accelerator("H100-SXM") is load_accelerator("h100-sxm")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'h100-sxn'; did you mean h100-sxm"):
        load_accelerator("h100-sxn")
    with pytest.raises(InputError, match=r"'zzz'; known are h100-sxm"):
        load_accelerator("zzz")
