"""Bytes against tensors of published checkpoints, and against the gguf package's own table."""

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.model.formats import (
    ALIASES,
    FORMATS,
    GGUF,
    KV_FORMATS,
    format_named,
    integer_format,
    stored_bytes,
)

# Shapes of the tensors that a checkpoint holds for one weight: (bytes an element, shape).
CHECKPOINTS = [
    # nvidia/DeepSeek-R1-0528-FP4, layers.0.mlp.down_proj: weight U8, weight_scale F8_E4M3, weight_scale_2 F32
    ("nvfp4", 7168, 18432, [(1, (7168, 9216)), (1, (7168, 1152)), (4, ())]),
    # deepseek-ai/DeepSeek-V3, layers.0.self_attn.kv_a_proj_with_mqa: weight F8_E4M3, weight_scale_inv F32
    ("fp8-block", 576, 7168, [(1, (576, 7168)), (4, (5, 56))]),
    # openai/gpt-oss-20b, one expert's gate_up_proj: _blocks U8 [.., 90, 16], _scales U8 [.., 90]
    ("mxfp4", 5760, 2880, [(1, (5760, 90, 16)), (1, (5760, 90))]),
    # TheBloke/Llama-2-7B-GPTQ, q_proj in groups of 128: qweight I32, qzeros I32, scales F16
    ("gptq", 4096, 4096, [(4, (512, 4096)), (4, (32, 512)), (2, (32, 4096))]),
    # TheBloke/Llama-2-7B-AWQ, down_proj: qweight I32 [in, out/8], qzeros I32, scales F16
    ("awq", 4096, 11008, [(4, (11008, 512)), (4, (86, 512)), (2, (86, 4096))]),
    # bitsandbytes Linear4bit without and with nested statistics (blocks of 64, of 256 absmax)
    ("bnb-nf4", 4096, 4096, [(1, (8388608, 1)), (4, (262144,))]),
    ("bnb-nf4-double", 4096, 4096, [(1, (8388608, 1)), (1, (262144,)), (4, (1024,))]),
    # bitsandbytes Linear8bitLt: weight I8 and SCB F32
    ("bnb-int8", 4096, 11008, [(1, (4096, 11008)), (4, (4096,))]),
]


@pytest.mark.parametrize(
    ("name", "rows", "cols", "tensors"), CHECKPOINTS, ids=[row[0] for row in CHECKPOINTS]
)
def test_bytes_are_those_of_the_tensors_in_published_checkpoints(name, rows, cols, tensors) -> None:
    expected = 0
    for width, shape in tensors:
        count = 1
        for length in shape:
            count *= length
        expected += width * count
    assert stored_bytes(FORMATS[name], rows, cols) == expected


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        *(("nvfp4", 4.5), ("mxfp4", 4.25), ("mxfp8", 8.25), ("int4", 4.15625), ("bf16", 16), ("fp8", 8)),
        *(("bnb-nf4", 4.5), ("bnb-nf4-double", 4.126953125), ("fp8-block", 8.001953125), ("float32", 32)),
        *(("int4-g32", 4.625), ("q4_k_m", 4.8944), ("q4_0", 4.5), ("q6_k", 6.5625)),
    ],
)
def test_bits_a_weight_as_the_formats_papers_state_them(name: str, bits: float) -> None:
    assert FORMATS[name].bits_per_weight == pytest.approx(bits, abs=1e-12)


GGML = {kind.name.lower(): kind for kind in gguf.GGMLQuantizationType}


@pytest.mark.parametrize("name", sorted(set(GGML) & GGUF))
def test_ggml_types_take_the_bytes_that_the_gguf_package_says(name: str) -> None:
    rows, cols = 24, 4096
    (*_, row_bytes) = gguf.quant_shape_to_byte_shape((rows, cols), GGML[name])
    assert stored_bytes(FORMATS[name], rows, cols) == rows * row_bytes


def test_every_quantised_ggml_type_is_known() -> None:
    whole = {"f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"}
    assert not {name for name in GGML if name not in whole and name not in FORMATS}


def test_ggmls_floats_are_those_of_the_accelerators() -> None:
    for name in ("mxfp4", "nvfp4"):
        elements, bytes_ = gguf.GGML_QUANT_SIZES[GGML[name]]
        assert FORMATS[name].bits_per_weight == bytes_ * 8 / elements


@pytest.mark.parametrize(
    ("name", "gib"),
    [  # of Llama 3.1 8B's files, as llama.cpp's tools/quantize/README.md lists them
        *(("q4_k_m", 4.58), ("q4_k_s", 4.36), ("q5_k_m", 5.33), ("q5_k_s", 5.21), ("q3_k_l", 4.02)),
        *(("q3_k_s", 3.41), ("q2_k_s", 2.78), ("iq2_m", 2.74), ("iq3_m", 3.52), ("iq3_xs", 3.27)),
        *(("q6_k", 6.14), ("q8_0", 7.95)),
    ],
)
def test_mixes_give_the_published_sizes_of_files(name: str, gib: float) -> None:
    assert 8_030_261_248 * FORMATS[name].bits_per_weight / 8 / 2**30 == pytest.approx(gib, abs=0.006)


def test_mixes_are_labelled_approximate_and_types_are_not() -> None:
    assert FORMATS["q4_k_m"].approximate
    assert not FORMATS["q4_k"].approximate


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        *(("gptq", "bf16"), ("awq", "bf16"), ("int4", "bf16"), ("int4-a8", "int8"), ("int8", "int8")),
        *(("nvfp4", "fp4"), ("mxfp4", "fp4"), ("mxfp8", "fp8"), ("fp8-block", "fp8"), ("fp16", "bf16")),
        *(("int8-weight-only", "bf16"), ("float32", "fp32"), ("q4_k", "int8"), ("bnb-nf4", "bf16")),
    ],
)
def test_weights_alone_are_widened_and_the_rest_multiplies_as_it_is(name: str, operands: str) -> None:
    assert FORMATS[name].arithmetic == operands


def test_an_element_of_the_kv_cache() -> None:
    assert KV_FORMATS["bf16"] == KV_FORMATS["fp16"] == 2
    assert KV_FORMATS["fp8"] == KV_FORMATS["int8"] == 1
    for name in ("q8_0", "q4_0", "nvfp4"):
        elements, bytes_ = gguf.GGML_QUANT_SIZES[GGML[name]]
        assert KV_FORMATS[name] == bytes_ / elements


def test_names_in_any_case_and_by_what_others_call_them() -> None:
    assert format_named(" NVFP4 ").name == "nvfp4"
    assert format_named("bfloat16").name == "bf16"
    assert set(ALIASES.values()) <= set(FORMATS)


def test_a_name_not_known_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'nvpf4'.*did you mean.*nvfp4"):
        format_named("nvpf4")


def test_integers_by_row_have_one_scale_and_zero_point_a_row() -> None:
    assert stored_bytes(integer_format(4, -1, asymmetric=True), 4096, 4096) == 4096 * 4096 / 2 + 4096 * 2.5
    assert stored_bytes(integer_format(8, 32), 64, 64) == 64 * 64 + 64 * 2 * 2


@given(st.sampled_from(sorted(FORMATS)), st.integers(1, 300), st.integers(1, 600))
def test_scales_are_never_less_than_their_share(name: str, rows: int, cols: int) -> None:
    format = FORMATS[name]
    bytes_ = stored_bytes(format, rows, cols)
    assert bytes_ >= rows * cols * format.bits_per_weight / 8 - 1e-9
    assert stored_bytes(format, rows + 1, cols) > bytes_
    assert stored_bytes(format, rows, cols + 1) > bytes_
