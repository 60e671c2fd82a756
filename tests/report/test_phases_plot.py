"""What the plot of both phases draws, against the roofline worked out by hand, and the files that it is."""

import re
import struct
import sys
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import ALONE, Plan
from twophase.cost.phases import phases
from twophase.errors import InputError
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.quantization import uniform
from twophase.report.labels import LETTER, Frame, Tag, along, around, box_of, settle
from twophase.report.phases import PhasesReport
from twophase.report.phases_floors import itl, ttft
from twophase.report.phases_plot import draw, formats, title
from twophase.report.phases_roofline import roofline
from twophase.report.vega import DECODE, FAINT, INK, PREFILL

BLOCKS, HEAD = 6_979_321_856, 128256 * 4096  # Llama-3-8B's matmul weights
KV = 128 * 1024  # its bytes of KV cache a token
PEAK, FP8, BANDWIDTH = 989e12, 1979e12, 3.35e12  # H100 SXM
PROMPTS, CONTEXTS = (1, 16, 128, 256, 512, 2048, 8192, 32768), (128, 2048, 8192, 32768)


def report(
    model: str = "llama-3-8b",
    gpu: str = "h100-sxm",
    weights: str = "bf16",
    plan: Plan = ALONE,
    batches: tuple[int, ...] = (1,),
    prompts: tuple[int, ...] = PROMPTS,
    contexts: tuple[int, ...] = CONTEXTS,
) -> PhasesReport:
    accelerator = load_accelerator(gpu)
    own = Deployment(load_model(model).spec, uniform(weights), 2.0, plan)
    found = phases(own, accelerator, prompts, contexts, batches, (2000, 500))
    return PhasesReport(own, accelerator, "bf16", "all", found)


def layers(spec: dict[str, Any], mark: str, colour: str) -> list[list[tuple[float, float]]]:
    """The points of each layer of one kind of mark and colour."""
    return [
        [(row["x"], row["y"]) for row in layer["data"]["values"]]
        for layer in spec["layer"]
        if layer["mark"]["type"] == mark and layer["mark"]["color"] == colour
    ]


def texts(spec: dict[str, Any]) -> list[str]:
    found = [layer["mark"]["text"] for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    return [text if isinstance(text, str) else "\n".join(text) for text in found]


def test_roofline_has_the_datasheets_roofs_and_the_textbooks_points() -> None:
    spec = roofline(report())
    (roof,) = layers(spec, "line", INK)
    assert roof[1] == pytest.approx((PEAK / BANDWIDTH, PEAK)) and roof[2][1] == PEAK
    assert roof[0][1] == pytest.approx(roof[0][0] * BANDWIDTH)
    assert any(line[0] == pytest.approx((FP8 / BANDWIDTH, FP8)) for line in layers(spec, "line", FAINT))
    (prefill,), (decode,) = layers(spec, "point", PREFILL), layers(spec, "point", DECODE)
    for tokens, point in zip(PROMPTS, prefill, strict=True):
        flops = 2 * (BLOCKS + HEAD) * tokens + 2 * 32 * 4096 * tokens**2
        bytes_ = 2 * (BLOCKS + HEAD) + KV * tokens
        assert point == pytest.approx((flops / bytes_, min(PEAK, flops / bytes_ * BANDWIDTH)))
    for context, point in zip(CONTEXTS, decode, strict=True):
        intensity = (2 * (BLOCKS + HEAD) + 4 * 32 * 4096 * context) / (2 * (BLOCKS + HEAD) + KV * context)
        assert point == pytest.approx((intensity, intensity * BANDWIDTH))
    assert {"BF16 989 TFLOP/s", "FP8 1.98 PFLOP/s", "3.35 TB/s", "ridge 295 FLOP/byte"} <= set(texts(spec))
    assert {"2,048", "32,768", "1"} <= set(texts(spec))


@pytest.mark.parametrize(
    ("gpu", "weights", "roofs"),
    [
        ("a100-80gb", "fp8", {"BF16 312 TFLOP/s", "INT8 624 TFLOP/s"}),  # no FP8: it counts in 16 bits
        ("t4", "bf16", {"FP16 65.0 TFLOP/s", "INT8 130 TFLOP/s"}),
        ("b200", "nvfp4", {"FP4 9.00 PFLOP/s", "FP8 4.50 PFLOP/s", "BF16 2.25 PFLOP/s"}),
        ("h100-sxm", "fp8", {"FP8 1.98 PFLOP/s", "BF16 989 TFLOP/s"}),
    ],
)
def test_the_roofs_are_those_of_the_arithmetic_in_use_and_of_16_and_8_bits(gpu, weights, roofs) -> None:
    found = texts(roofline(report(gpu=gpu, weights=weights)))
    assert {text for text in found if text.endswith("FLOP/s")} == roofs


def floor_parts(tokens: int) -> tuple[float, float]:
    """Compute and memory of a prefill in ms: causal pairs, logits of the last row, embeddings gathered."""
    flops = 2 * BLOCKS * tokens + 2 * HEAD + 4 * 32 * 4096 * tokens * (tokens + 1) / 2
    bytes_ = 2 * (BLOCKS + HEAD) + (KV + 2 * 4096) * tokens
    return flops / PEAK * 1e3, bytes_ / BANDWIDTH * 1e3


def test_ttft_is_the_larger_of_its_parts_and_turns_where_they_meet() -> None:
    spec = ttft(report())
    (solid,) = layers(spec, "line", PREFILL)
    assert (solid[0][0], solid[-1][0]) == (1, 32768) and len(solid) > 100
    for tokens, milliseconds in solid:
        assert milliseconds == pytest.approx(max(floor_parts(tokens)), rel=1e-4)
    first = next(n for n in range(1, 1000) if floor_parts(n)[0] >= floor_parts(n)[1])
    assert f"compute-bound from {first}" in texts(spec)
    *_, compute, memory = layers(spec, "line", FAINT)
    assert compute[-1] == pytest.approx((32768, floor_parts(32768)[0]), rel=1e-4)
    assert memory[0] == pytest.approx((1, floor_parts(1)[1]), rel=1e-4)


def test_itl_of_one_batch_has_its_parts_and_values() -> None:
    spec = itl(report())
    (solid,) = layers(spec, "line", DECODE)
    for context, milliseconds in solid:
        assert milliseconds == pytest.approx((2 * (BLOCKS + HEAD) + KV * context) / 3.35e9, rel=1e-4)
    assert {"compute", "memory", "4.49 ms", "5.76 ms"} <= set(texts(spec))
    assert not layers(spec, "line", INK)  # one device: no communication


def test_itl_of_a_large_batch_is_memory_bound_only_from_a_context_on() -> None:
    """Batch 512 of Llama-3-8B: compute is about 512·2·W over the peak, 7.8 ms; 512 caches outgrow it."""
    spec = itl(report(batches=(512,), contexts=(16, 4096)))
    (said,) = [text for text in texts(spec) if "bound" in text]
    context = int(said.removeprefix("memory-bound from ").replace(",", ""))
    meets = (512 * 2 * (BLOCKS + HEAD) / PEAK * BANDWIDTH - 2 * (BLOCKS + HEAD)) / (512 * KV)
    attention = 1 - 4 * 32 * 4096 / PEAK * BANDWIDTH / KV  # FLOPs of attention grow with the context, too
    assert context == pytest.approx(meets / attention, rel=0.05)


def test_several_batches_are_curves_with_names() -> None:
    spec = itl(report(batches=(1, 4, 16, 64, 256)))
    assert len(layers(spec, "line", DECODE)) == 5
    assert {"batch 256", "64", "16", "4", "1"} <= set(texts(spec)) and "memory" not in texts(spec)


def test_communication_stands_beside_the_floor() -> None:
    """Two all-reduces a layer of 2 · 8192 bytes: one shot to three others over NVLink is the quicker way."""
    spec = itl(report("llama-3-70b", weights="fp8", plan=Plan(tp=4)))
    (line,) = layers(spec, "line", INK)
    assert line[0][1] == pytest.approx(80 * 2 * (3 * 2 * 8192 / 450e9 + 2e-6) * 1e3)
    assert "communication" in texts(spec)


CASES = {
    "default": report(),
    "tp": report("llama-3-70b", weights="fp8", plan=Plan(tp=4), batches=(1, 4, 16, 64, 256)),
    "pp": report("llama-3-70b", gpu="b300", weights="nvfp4", plan=Plan(tp=2, pp=2)),
    "single": report("gemma-3-1b", gpu="t4", prompts=(5,), contexts=(1,), batches=(512,)),
    "many": report(prompts=tuple(range(1, 4000, 7)), batches=(1, 2, 4, 8, 16, 32), gpu="strix-halo"),
    "long": report("llama-3.1-405b", gpu="mi300x", prompts=(100_000, 10_000_000), contexts=(10_000_000,)),
}


@pytest.mark.parametrize("case", CASES)
def test_no_point_is_above_the_roof_and_none_outside_the_plot(case: str) -> None:
    own = CASES[case]
    for spec in (roofline(own), ttft(own), itl(own)):
        domains = [spec["layer"][0]["encoding"][name]["scale"]["domain"] for name in ("x", "y")]
        for point in (
            each for colour in (PREFILL, DECODE) for row in layers(spec, "point", colour) for each in row
        ):
            assert all(low <= value <= high for value, (low, high) in zip(point, domains, strict=True))
    top = set(own.accelerator.flops.values())
    for row in (row for colour in (PREFILL, DECODE) for row in layers(roofline(own), "point", colour)):
        for intensity, speed in row:
            assert speed <= min(max(top), intensity * own.accelerator.bandwidth) * (1 + 1e-9)


@pytest.mark.parametrize("case", CASES)
def test_no_label_lies_on_another_or_on_a_point(case: str) -> None:
    own = CASES[case]
    for spec in (roofline(own), ttft(own), itl(own)):
        boxes = [box for layer in spec["layer"] if (box := drawn_box(spec, layer))]
        assert len(boxes) >= 3
        for (left, top, right, bottom), other in combinations(boxes, 2):
            assert left > other[2] or right < other[0] or top > other[3] or bottom < other[1]
        for colour in (PREFILL, DECODE):
            for right, down in (at(spec, point) for row in layers(spec, "point", colour) for point in row):
                assert not any(a < right < c and b < down < d for a, b, c, d in boxes)


def at(spec: dict[str, Any], point: tuple[float, float]) -> tuple[float, float]:
    scales = [spec["layer"][0]["encoding"][name]["scale"] for name in ("x", "y")]
    return Frame(
        *(spec["width"], spec["height"]),
        *(tuple(scale["domain"]) for scale in scales),
        log_y=scales[1].get("type") == "log",
    ).pixel(*point)


def drawn_box(spec: dict[str, Any], layer: dict[str, Any]) -> tuple[float, ...] | None:
    """Pixels of an upright text of at least 5 a letter, from what Vega-Lite is told."""
    mark = layer["mark"]
    if mark["type"] != "text" or mark.get("angle"):
        return None
    (row,) = layer["data"]["values"]
    right, middle = at(spec, (row["x"], row["y"]))
    wide, lines = 5.0 * max(map(len, mark["text"])), len(mark["text"])
    left = right + mark["dx"] - {"left": 0, "center": wide / 2, "right": wide}[mark["align"]]
    top = middle + mark["dy"] - 5
    return left, top, left + wide, top + 10 + mark["lineHeight"] * (lines - 1)


FRAME = Frame(340, 200, (1.0, 1e4), (1e-3, 1e3))
POINT = st.tuples(st.floats(0, 4).map(lambda x: 10**x), st.floats(-3, 3).map(lambda y: 10**y))


@given(
    st.lists(st.tuples(POINT, st.text("m,4", min_size=1, max_size=12)), max_size=12),
    st.lists(POINT, max_size=6),
)
def test_settled_labels_are_apart_inside_and_clear_of_lines(wanted, line) -> None:
    candidates = [around(*point, text, INK, "rlabRLSM") for point, text in wanted]
    taken = [along(FRAME, line)] if line else []
    kept = settle(FRAME, candidates, taken)
    assert all(any(tag in each for each in candidates) for tag in kept) and len(kept) <= len(wanted)
    boxes = [box_of(FRAME, tag) for tag in kept]
    for one, other in combinations(boxes, 2):
        assert one[0] > other[2] or one[2] < other[0] or one[1] > other[3] or one[3] < other[1]
    for left, top, right, bottom in boxes:
        assert left >= 0 and right <= 342 and top >= -2 and bottom <= 200
        for x, y in (FRAME.pixel(*point) for point in line):
            assert not (left < x < right and top < y < bottom)


def test_a_label_takes_the_first_side_that_is_free() -> None:
    tags = settle(FRAME, [around(100, 1, "first", INK, "rl"), around(100, 1, "second", INK, "rl")], [])
    assert [(tag.text, tag.align) for tag in tags] == [("first", "left"), ("second", "right")]
    assert box_of(FRAME, Tag(1, 1e3, "ab", INK)) == (0, -7, 2 * LETTER, 7)
    assert FRAME.data(*FRAME.pixel(37.0, 5.0)) == pytest.approx((37, 5))


def test_titles_name_the_model_formats_accelerator_plan_and_the_floor() -> None:
    own = CASES["tp"]
    assert title(own) == "Llama-3-70B on H100 SXM: the floor of prefill and decode"
    assert formats(own) == "FP8 weights, FP8 arithmetic, BF16 KV cache, TP4 on 4 devices"
    assert formats(CASES["single"]) == "BF16 weights, FP16 arithmetic, BF16 KV cache, one device"


def test_the_page_needs_nothing_else() -> None:
    page = draw(CASES["tp"], ".html").decode()
    addresses = set(re.findall(r"\w+://[^\s\"'<>]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(script|link|img|iframe)|@import|url\(", page)
    assert page.count("<svg ") == 3 and "prefers-color-scheme: dark" in page and "width=device-width" in page
    assert title(CASES["tp"]) in page and formats(CASES["tp"]) in page
    for drawn in re.findall(r"<svg .*?</svg>", page, re.S):
        ElementTree.fromstring(drawn)


def test_pictures_are_one_svg_in_fixed_colours_and_the_same_as_png() -> None:
    svg = draw(CASES["pp"], ".svg").decode()
    root = ElementTree.fromstring(svg)
    said = "".join(root.itertext())
    assert "var(" not in svg and title(CASES["pp"]) in said and formats(CASES["pp"]) in said
    assert {"TTFT (ms)", "ITL (ms)", "Attainable FLOP/s of one device"} <= {
        "".join(e.itertext()) for e in root.iter()
    }
    png = draw(CASES["pp"], ".png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = struct.unpack(">II", png[16:24])
    assert size == tuple(2 * float(root.attrib[name]) for name in ("width", "height"))


def test_a_name_with_markup_is_text() -> None:
    from dataclasses import replace

    own = CASES["default"]
    spec = replace(own.deployment.spec, name='<b>&"x')
    odd = replace(own, deployment=replace(own.deployment, spec=spec))
    assert "<b>" not in draw(odd, ".html").decode()
    ElementTree.fromstring(draw(odd, ".svg"))


def test_other_files_and_a_missing_library_are_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"\.html, \.png, \.svg"):
        draw(CASES["default"], ".pdf")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for suffix in (".html", ".png", ".svg"):
        with pytest.raises(InputError, match="charts need vl-convert: install the extra charts") as said:
            draw(CASES["default"], suffix)
        assert "\n" not in str(said.value)
