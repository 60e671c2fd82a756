"""The catalogue against figures that others published, written here by hand."""

import csv
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.hardware.accelerator import DTYPES, Accelerator
from twophase.hardware.catalogue import accelerators, load_accelerator, names_of, spelled

EVERY = pytest.mark.parametrize("name", accelerators())
SHARED = os.environ.get("TWOPHASE_SHARED")

# 16-bit dense TFLOP/s, TB/s, marketed GB, from the vendors' datasheets and documentation
DATASHEETS = {
    "h100-sxm": (989, 3.35, 80),
    "h200": (989, 4.8, 141),
    "h20": (148, 4.0, 96),
    "b200": (2250, 8.0, 180),
    "gb200": (2500, 8.0, 186),
    "a100-80gb": (312, 2.04, 80),
    "a100-80gb-pcie": (312, 1.935, 80),
    "a100-40gb": (312, 1.555, 40),
    "a10g": (70, 0.6, 24),
    "a40": (149.7, 0.696, 48),
    "l4": (121, 0.3, 24),
    "l40s": (362, 0.864, 48),
    "l20": (119.5, 0.864, 48),
    "a10": (125, 0.6, 24),
    "a30": (165, 0.933, 24),
    "t4": (65, 0.32, 16),
    "v100-sxm-32gb": (125, 0.9, 32),
    "rtx-3090": (71, 0.936, 24),
    "rtx-4090": (165.2, 1.008, 24),
    "rtx-5090": (209.5, 1.792, 32),
    "mi210": (181, 1.638, 64),
    "mi250x": (383, 3.277, 128),
    "mi300x": (1307.4, 5.3, 192),
    "mi325x": (1307.4, 6.0, 256),
    "mi355x": (2516.6, 8.0, 288),
    "gaudi3": (1835, 3.7, 128),
    "tpu-v5e": (197, 0.819, 16),
    "tpu-v5p": (459, 2.765, 95),
    "tpu-v6e": (918, 1.638, 32),
    "tpu-v7": (2307, 7.38, 192),
    "trainium2": (667, 2.9, 96),
    "m2-ultra": (27.2, 0.8, 192),
    "m4-max": (18.4, 0.546, 128),
}

# What datasheets print with 2:4 sparsity, in TFLOP/s: half of it is dense
SPARSE = {
    "h100-sxm": {"tf32": 989, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h100-pcie": {"tf32": 756, "bf16": 1513, "fp8": 3026, "int8": 3026},
    "h100-nvl": {"tf32": 835, "bf16": 1671, "fp8": 3341, "int8": 3341},
    "h200": {"tf32": 989, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "b200": {"tf32": 2250, "bf16": 4500, "fp8": 9000, "int8": 9000, "fp4": 18000},
    "gb200": {"tf32": 2500, "bf16": 5000, "fp8": 10000, "int8": 10000, "fp4": 20000},
    "gb300": {"tf32": 2500, "bf16": 5000, "fp8": 10000, "int8": 330},
    "a100-80gb": {"tf32": 312, "bf16": 624, "int8": 1248},
    "a10": {"tf32": 125, "bf16": 250, "int8": 500},
    "a30": {"tf32": 165, "bf16": 330, "int8": 661},
    "a40": {"tf32": 149.6, "bf16": 299.4, "int8": 598.6},
    "l4": {"tf32": 120, "bf16": 242, "fp8": 485, "int8": 485},
    "l40s": {"tf32": 366, "bf16": 733, "fp8": 1466, "int8": 1466},
    "rtx-4090": {"bf16": 330.4, "fp8": 660.6, "int8": 1321.2},
    "rtx-5090": {"bf16": 419, "fp8": 838, "int8": 1676, "fp4": 3352},
    "dgx-spark": {"fp4": 1000},
    "mi300x": {"bf16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
    "trainium2": {"fp8": 2563},
}

# What cudaMemGetInfo or hipMemGetInfo reported, GiB, in logs of vLLM and PyTorch
DRIVER_GIB = {
    "h100-sxm": 79.19,
    "h200": 139.80,
    "b200": 178.35,
    "a100-40gb": 39.38,
    "l40s": 44.42,
    "l4": 22.03,
    "a10g": 22.06,
    "t4": 14.56,
    "rtx-3090": 23.58,
    "rtx-5090": 31.36,
    "rtx-pro-6000": 94.97,
    "v100-sxm-32gb": 31.73,
    "mi300x": 191.98,
}

# Where aiconfigurator's system files (Apache-2.0) differ by more than 2 %, and why ours stands
DIFFERS = {
    ("b200", "bandwidth"): "8.0 of DGX B200, the higher, for 7.7 of the HGX board",
    ("b300", "bandwidth"): "8.0 of Blackwell Ultra, the higher, for 7.75 of the HGX board",
}
SYSTEMS = {
    "a100_pcie": "a100-80gb-pcie",
    "a100_sxm": "a100-80gb",
    "a30": "a30",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100_pcie": "h100-pcie",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200",
    "l4": "l4",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}
MARKETED_GIB = {"a100_pcie", "a100_sxm", "a30", "b200_sxm", "h100_pcie", "h100_sxm", "h200_sxm", "l4"}


@pytest.mark.parametrize("name", DATASHEETS)
def test_figures_are_the_datasheets(name: str) -> None:
    tflops, terabytes, gigabytes = DATASHEETS[name]
    own = load_accelerator(name)
    assert own.peak_flops == pytest.approx(tflops * 1e12, rel=0.003)
    assert own.marketed_bytes == pytest.approx(gigabytes * 1e9)
    # Where prints differ by rounding or edition, the higher: never less, hardly more.
    assert 0.999 * terabytes * 1e12 <= own.bandwidth <= 1.035 * terabytes * 1e12


@pytest.mark.parametrize("name", SPARSE)
def test_dense_is_half_of_sparse(name: str) -> None:
    own = load_accelerator(name)
    for dtype, sparse in SPARSE[name].items():
        assert own.flops[dtype] == pytest.approx(sparse * 1e12 / 2, rel=0.015), dtype


@pytest.mark.parametrize("name", DRIVER_GIB)
def test_memory_is_what_the_driver_reports(name: str) -> None:
    assert load_accelerator(name).memory_bytes == pytest.approx(DRIVER_GIB[name] * 2**30, rel=0.002)


def test_ridge_points_of_the_textbook() -> None:
    assert round(load_accelerator("h100-sxm").ridge) == 295
    assert round(load_accelerator("a100-80gb").ridge) == 153


@EVERY
def test_every_entry_is_whole_and_plausible(name: str) -> None:
    own = load_accelerator(name)
    assert own.title and own.vendor
    assert {"flops", "memory", "bandwidth", "links"} <= own.sources.keys()
    assert (own.price_per_hour is None) == (own.price_date == "") == ("price" not in own.sources)
    assert "indicative" in own.sources.get("price", "indicative")
    assert own.flops.keys() <= set(DTYPES)
    assert 20 < own.ridge < 700  # a sparse peak or a wrong unit would leave this range
    assert 0.6 * own.marketed_bytes < own.memory_bytes < 1.001 * own.marketed_bytes / 1e9 * 2**30
    assert 1e9 <= own.inter.bandwidth <= own.intra.bandwidth < own.bandwidth
    assert 0 < own.intra.latency_s <= own.inter.latency_s < 1e-3
    assert 0.1 < (own.price_per_hour or 1) < 20


@EVERY
def test_narrower_operands_multiply_no_slower(name: str) -> None:
    """Never slower, and twice as fast a halving; but for INT8 that Blackwell Ultra all but dropped."""
    own = load_accelerator(name)
    for wide, narrow, most in [
        ("bf16", "fp8", 2),
        ("bf16", "int8", 4),
        ("fp8", "fp4", 4),
        ("tf32", "bf16", 4),
    ]:
        dropped = narrow == "int8" and name in ("b300", "gb300")
        if wide in own.flops and narrow in own.flops and not dropped:
            assert 0.99 <= own.flops[narrow] / own.flops[wide] <= most * 1.02, (wide, narrow)


def test_the_devices_that_were_asked_for_are_there() -> None:
    wanted = """A10 A10G A30 A40 A100-40GB A100-40GB-PCIe A100-80GB A100-80GB-PCIe L4 L20 L40S T4 V100
    H100-PCIe H100-SXM H100-NVL H20 H200 GH200 B200 B300 GB200 GB300 RTX-3090 RTX-4090 RTX-5090 RTX-6000-Ada
    RTX-Pro-6000 DGX-Spark MI210 MI250X MI300X MI325X MI350X MI355X Gaudi2 Gaudi3 TPU-v4 TPU-v5e
    TPU-v5p TPU-v6e TPU-v7 Trainium1 Trainium2 Inferentia2 M1 M1-Max M2-Ultra M3-Pro M4-Max A800 H800
    RTX-A5000 RTX-3060 RTX-5080 P40 RX-6900-XT Strix-Halo Ascend-910B"""
    found = {load_accelerator(name).name for name in wanted.split()}
    assert len(found) == len(wanted.split())


@pytest.mark.parametrize(
    ("said", "name"),
    [
        # torch.cuda.get_device_name
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm-16gb"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA GB10", "dgx-spark"),
        # as people write them
        ("h100", "h100-sxm"),
        ("H100-80GB", "h100-sxm"),
        ("A100-80GB SXM", "a100-80gb"),
        ("A100-80GB SXM (330 W cap)", "a100-80gb"),
        ("DGX Spark (273 GB/s)", "dgx-spark"),
        ("MI250X (1 GCD)", "mi250x-gcd"),
        ("Apple M2 Ultra", "m2-ultra"),
        ("Strix Halo APU", "strix-halo"),
        (" Trillium ", "tpu-v6e"),
    ],
)
def test_a_device_is_known_by_what_drivers_and_people_call_it(said: str, name: str) -> None:
    assert load_accelerator(said) is accelerators()[name]


def test_a_name_means_one_device() -> None:
    spellings = Counter(
        spelling
        for each in accelerators().values()
        for spelling in {spelled(name) for name in (each.name, each.title, *each.aliases)}
    )
    assert [spelling for spelling, times in spellings.items() if times > 1] == []
    assert len(names_of(accelerators().values())) == len(spellings)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'h100-sxn'; did you mean h100-sxm"):
        load_accelerator("h100-sxn")
    with pytest.raises(InputError, match=r"'zzz'; `twophase hardware` lists them"):
        load_accelerator("zzz")


@pytest.mark.parametrize("name", ["", " ", "()", "é", "-", "h100" * 1000])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="unknown accelerator"):
        load_accelerator(name)


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("a100-80gb", "fp8", 312),  # no FP8: BF16 arithmetic on widened operands
        ("a100-80gb", "fp4", 312),
        ("h100-sxm", "fp4", 1979),  # no FP4: FP8
        ("h100-sxm", "int8", 1979),
        ("b200", "fp4", 9000),
        ("b300", "int8", 153.5),  # it has INT8, and slowly
        ("t4", "bf16", 65),  # no BF16: FP16
        ("p40", "fp16", 12),  # no tensor cores: FP32
        ("p40", "int8", 47),
        ("h100-sxm", "fp32", 67),
        ("tpu-v5e", "fp32", 197),  # it has nothing wider: too high, which keeps a floor
    ],
)
def test_a_type_that_a_device_lacks_is_multiplied_as_the_next_wider(
    name: str, dtype: str, tflops: float
) -> None:
    assert load_accelerator(name).peak(dtype) == tflops * 1e12


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown type of operands 'fp64': one of fp32, tf32"):
        load_accelerator("h100-sxm").peak("fp64")


@pytest.mark.skipif(not SHARED, reason="needs TWOPHASE_SHARED")
def test_nvidias_own_system_files_agree() -> None:
    """Within 2 %, but for what DIFFERS names, where ours is the higher. Intel's B60 we don't have."""
    checked = 0
    for stem, name in SYSTEMS.items():
        path, own = Path(SHARED or "", f"data/measured/systems/{stem}.yaml"), load_accelerator(name)
        figures = dict(re.findall(r"^ +(\w+): ([0-9.]+)", path.read_text(), flags=re.MULTILINE))
        pairs = {
            "bandwidth": (own.bandwidth, figures["mem_bw"]),
            "bf16": (own.flops["bf16"], figures["bfloat16_tc_flops"]),
            "int8": (own.flops["int8"], figures["int8_tc_flops"]),
            "link": (own.intra.bandwidth, figures["intra_node_bw"]),
        }
        for dtype in ("fp8", "fp4"):
            if f"{dtype}_tc_flops" in figures:
                pairs[dtype] = own.flops[dtype], figures[f"{dtype}_tc_flops"]
        if stem in MARKETED_GIB:  # 80 GiB for a card of 80 GB
            pairs["memory"] = own.marketed_bytes / 1e9 * 2**30, figures["mem_capacity"]
        for what, (ours, theirs) in pairs.items():
            checked += 1
            if (own.name, what) in DIFFERS:
                assert 1.02 < ours / float(theirs) < 1.05, (own.name, what)
            else:
                assert ours == pytest.approx(float(theirs), rel=0.02), (own.name, what)
    assert checked > 60


@pytest.mark.skipif(not SHARED, reason="needs TWOPHASE_SHARED")
def test_engine_logs_agree_on_usable_memory() -> None:
    known: list[tuple[Accelerator, float]] = []
    with Path(SHARED or "", "data/cases/fit_cases.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = re.sub(r" x[0-9]+$", "", row["gpu"])
            if row["gpu_mem_gib_usable"] and re.search("H100|A100|L40S|T4|3090|A10 ", name):
                known.append((load_accelerator(name), float(row["gpu_mem_gib_usable"])))
    assert len(known) > 12
    for own, gib in known:
        assert own.memory_bytes / 2**30 == pytest.approx(gib, rel=0.005), own.name
