"""Formats of a checkpoint's weights, against published sizes and the libraries that write and read them."""

import fnmatch
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.model.formats import FORMATS, stored_bytes
from twophase.model.module_rules import canonical
from twophase.model.quantization import Storage, read_storage, uniform

SHARED = os.environ.get("TWOPHASE_SHARED")
CONFIGS = sorted((Path(SHARED) / "data" / "configs").glob("*.json")) if SHARED else []
needs_shared = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED is not set")


def quantised(config: dict[str, Any], **beside: Any) -> Storage:
    return read_storage({"torch_dtype": "bfloat16", **beside, "quantization_config": config}, "config.json")


def names_of(storage: Storage, *modules: str) -> list[str]:
    return [storage.format_of(module).name for module in modules]


MXFP4 = {
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
    "quant_method": "mxfp4",
}
FP8_DYNAMIC = {
    "config_groups": {
        "group_0": {
            "input_activations": {"dynamic": True, "num_bits": 8, "strategy": "token", "type": "float"},
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "strategy": "channel", "symmetric": True, "type": "float"},
        }
    },
    "ignore": ["lm_head"],
    "quant_method": "compressed-tensors",
}
W8A8 = {
    "config_groups": {
        "group_0": {
            "input_activations": {"dynamic": True, "num_bits": 8, "strategy": "token", "type": "int"},
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "strategy": "channel", "symmetric": True, "type": "int"},
        }
    },
    "ignore": ["lm_head"],
    "quant_method": "compressed-tensors",
}
BLOCKS = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}


def gpt_oss(layers: int, experts: int) -> list[tuple[str, int, int, int]]:
    """Weights (name, outputs, inputs, copies) of openai/gpt-oss: hidden 2880, 64 heads of 64, 8 KV heads."""
    own = [
        ("self_attn.q_proj", 4096, 2880, 1),
        ("self_attn.k_proj", 512, 2880, 1),
        ("self_attn.v_proj", 512, 2880, 1),
        ("self_attn.o_proj", 2880, 4096, 1),
        ("mlp.router", experts, 2880, 1),
        ("mlp.experts.gate_up_proj", 5760, 2880, experts),
        ("mlp.experts.down_proj", 2880, 2880, experts),
    ]
    return [
        ("model.embed_tokens", 201088, 2880, 1),
        ("lm_head", 201088, 2880, 1),
        *((f"model.layers.{i}.{name}", *rest) for i in range(layers) for name, *rest in own),
    ]


def llama_70b() -> list[tuple[str, int, int, int]]:
    """Of Llama 3: hidden 8192, 64 heads of 128, 8 KV heads, d_ff 28672."""
    own = [
        ("self_attn.q_proj", 8192, 8192, 1),
        ("self_attn.k_proj", 1024, 8192, 1),
        ("self_attn.v_proj", 1024, 8192, 1),
        ("self_attn.o_proj", 8192, 8192, 1),
        ("mlp.gate_proj", 28672, 8192, 1),
        ("mlp.up_proj", 28672, 8192, 1),
        ("mlp.down_proj", 8192, 28672, 1),
    ]
    return [
        ("model.embed_tokens", 128256, 8192, 1),
        ("lm_head", 128256, 8192, 1),
        *((f"model.layers.{i}.{name}", *rest) for i in range(80) for name, *rest in own),
    ]


def qwen3_30b() -> list[tuple[str, int, int, int]]:
    """Hidden 2048, 32 heads of 128, 4 KV heads, 128 experts of 768."""
    own = [
        ("self_attn.q_proj", 4096, 2048, 1),
        ("self_attn.k_proj", 512, 2048, 1),
        ("self_attn.v_proj", 512, 2048, 1),
        ("self_attn.o_proj", 2048, 4096, 1),
        ("mlp.gate", 128, 2048, 1),
        ("mlp.experts.0.gate_proj", 768, 2048, 128),
        ("mlp.experts.0.up_proj", 768, 2048, 128),
        ("mlp.experts.0.down_proj", 2048, 768, 128),
    ]
    return [
        ("model.embed_tokens", 151936, 2048, 1),
        ("lm_head", 151936, 2048, 1),
        *((f"model.layers.{i}.{name}", *rest) for i in range(48) for name, *rest in own),
    ]


@pytest.mark.parametrize(
    ("config", "weights", "gib", "within"),
    [
        # OpenAI's model card (arXiv 2508.10925, table 1): checkpoint sizes of 12.8 and 60.8 GiB
        pytest.param(MXFP4, lambda: gpt_oss(24, 32), 12.8, 0.05, id="gpt-oss-20b"),
        pytest.param(MXFP4, lambda: gpt_oss(36, 128), 60.8, 0.15, id="gpt-oss-120b"),
        # what vLLM logs as the model's weights; of the 70B's, 0.031 are the cosines of 131,072 positions
        pytest.param(
            FP8_DYNAMIC, llama_70b, 67.72 - 0.031, 0.005, id="RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
        ),
        pytest.param(W8A8, llama_70b, 67.72 - 0.031, 0.005, id="Meta-Llama-3.1-70B-Instruct-quantized.w8a8"),
        pytest.param(BLOCKS, qwen3_30b, 29.09, 0.1, id="Qwen/Qwen3-30B-A3B-FP8"),
    ],
)
def test_weights_take_what_publishers_and_engines_report(
    config: dict[str, Any], weights: Callable[[], list[tuple[str, int, int, int]]], gib: float, within: float
) -> None:
    storage = quantised(config)
    total = sum(copies * stored_bytes(storage.format_of(name), n, k) for name, n, k, copies in weights())
    assert total / 2**30 == pytest.approx(gib, abs=within)


def test_without_a_quantization_config_the_dtype_holds() -> None:
    for config, name in (
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"text_config": {"dtype": "bfloat16"}}, "bf16"),
        ({"torch_dtype": "torch.float32", "quantization_config": None}, "float32"),
        ({}, "bf16"),
    ):
        storage = read_storage(config, "config.json")
        assert storage.name == name
        assert names_of(storage, "model.layers.0.mlp.up_proj", "lm_head", "model.norm") == [name] * 3


def test_what_is_no_matrix_of_a_block_stays_in_16_bits() -> None:
    storage = quantised(BLOCKS)
    assert storage.name == "fp8-block"
    kept = (
        "lm_head",
        "model.embed_tokens",
        "model.norm",
        "model.layers.3.input_layernorm",
        "model.layers.3.mlp.gate",
        "model.layers.3.mlp.gate.e_score_correction_bias",
        "model.layers.3.self_attn.q_a_layernorm",
        "model.layers.3.self_attn.indexer.weights_proj",
        "model.layers.3.mlp.shared_expert_gate",
        "model.layers.3.feed_forward.router",
        "model.layers.3.block_sparse_moe.gate",
        "model.layers.3.self_attn.q_proj.bias",
        "backbone.layers.3.mixer.conv1d",
        "backbone.layers.3.mixer.A_log",
        "transformer.wte",
    )
    assert names_of(storage, *kept) == ["bf16"] * len(kept)
    taken = (
        "model.layers.3.mlp.gate_proj",
        "model.layers.3.self_attn.kv_a_proj_with_mqa",
        "model.layers.3.self_attn.indexer.wq_b",
        "model.layers.3.mlp.shared_experts.down_proj",
        "backbone.layers.3.mixer.in_proj",
        "transformer.h.3.mlp.c_fc",
    )
    assert names_of(storage, *taken) == ["fp8-block"] * len(taken)


@pytest.mark.parametrize(
    ("rule", "module", "held"),
    [
        ("model.layers.1*", "model.layers.10.mlp.up_proj", True),  # as fnmatch reads it
        ("model.layers.1.*", "model.layers.10.mlp.up_proj", False),
        ("model.layers.1", "model.layers.10.mlp.up_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("language_model.model.layers.1.self_attn*", "model.layers.1.self_attn.o_proj", True),
        ("model.language_model.layers.1.self_attn*", "layers.1.self_attn.o_proj", True),
        ("backbone.layers.1.mixer.q_proj", "model.layers.1.self_attn.q_proj", True),
        ("backbone.layers.1.mixer*", "model.layers.1.mlp.experts.0.up_proj", True),
        ("backbone.layers.1.mixer.in_proj", "backbone.layers.1.mixer.in_proj", True),
        ("model.layers.1.block_sparse_moe.experts.0.w1", "model.layers.1.mlp.experts.0.gate_proj", True),
        ("model.layers.1.block_sparse_moe.experts.0.w1", "model.layers.1.mlp.experts.0.down_proj", False),
        ("model.layers.1.block_sparse_moe.experts.0.w2", "model.layers.1.mlp.experts.0.down_proj", True),
        ("model.layers.1.feed_forward.shared_expert", "model.layers.1.mlp.shared_experts.up_proj", True),
        ("*.mlp.shared_expert.*", "model.layers.1.mlp.shared_expert.up_proj", True),
        ("*.mlp.shared_expert.*", "model.layers.1.mlp.experts.0.up_proj", False),
        ("layers.*.self_attn", "model.layers.7.self_attn.q_proj", True),
        ("self_attn", "model.layers.7.self_attn.q_proj", True),
        ("self_attn.o_proj", "model.layers.7.self_attn.q_proj", False),
        ("mlp.experts", "model.layers.7.mlp.shared_experts.up_proj", False),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.7.mlp.up_proj", True),
        ("re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.7.mlp.experts.3.up_proj", False),
        ("re:.*self_attn.*", "language_model.model.layers.7.self_attn.kv_b_proj", True),
        ("re:^model\\.layers\\.7\\..*", "layers.7.self_attn.kv_b_proj", True),
        ("vision_model.model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.q_proj", False),
        ("mtp.layers.0*", "model.layers.0.self_attn.q_proj", False),
        ("model.visual*", "model.visual.blocks.0.attn.qkv", True),
        ("model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.qkv_proj", True),
    ],
)
def test_every_dialect_of_exclusion(rule: str, module: str, held: bool) -> None:
    own = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", rule]}
    assert quantised(own).format_of(module).name == ("bf16" if held else "nvfp4")


def test_deepseek_v4_has_its_experts_in_mxfp4_and_the_rest_in_fp8() -> None:
    storage = quantised({**BLOCKS, "scale_fmt": "ue8m0"}, expert_dtype="fp4")
    assert storage.name == "mxfp4+fp8-block"
    assert names_of(
        storage,
        "layers.3.ffn.experts.7.w2",
        "layers.3.ffn.shared_experts.w2",
        "layers.3.attn.wq_b",
        "layers.3.attn.compressor.wkv",
        "layers.3.ffn.gate",
        "head",
        "embed",
    ) == ["mxfp4", "fp8-block", "fp8-block", "bf16", "bf16", "bf16", "bf16"]


def test_a_mixed_checkpoint_names_each_layers_algorithm() -> None:
    layers = {
        "lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.language_model.layers.0.linear_attn.in_proj_qkv": {"quant_algo": "FP8"},
        "model.language_model.layers.0.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16},
        "model.language_model.layers.1.mlp.down_proj": {"quant_algo": "MXFP8"},
    }
    storage = quantised(
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": layers,
            "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        }
    )
    assert storage.kv == "fp8"
    assert names_of(
        storage,
        "lm_head",
        "model.layers.0.linear_attn.in_proj_qkv",
        "model.layers.0.linear_attn.out_proj",
        "model.layers.0.mlp.experts.0.gate_proj",
        "model.layers.0.mlp.gate",
        "model.layers.1.mlp.down_proj",
    ) == ["nvfp4", "fp8", "bf16", "nvfp4", "bf16", "mxfp8"]


def test_gemma_4s_dense_block_is_not_its_experts() -> None:
    own = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "ignore": ["model.language_model.layers.0.mlp*", "model.language_model.layers.0.router*"],
    }
    storage = quantised(own, text_config={"enable_moe_block": True})
    modules = ("experts.0.up_proj", "mlp.experts.0.up_proj", "mlp.up_proj", "mlp.shared_experts.up_proj")
    assert names_of(storage, *(f"model.language_model.layers.0.{each}" for each in modules)) == [
        *("nvfp4", "nvfp4", "bf16", "bf16")
    ]


def with_groups(weights: dict[str, Any], activations: dict[str, Any] | None = None) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


@pytest.mark.parametrize(
    ("own", "bits", "arithmetic"),
    [  # bits a weight: elements, and scales and zero points by hand
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 20 / 128, "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, 8 + 24 / 32, "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}, 4 + 20 / 64, "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": False}, 4 + 16 / 128, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, "int8"),
        ({"quant_method": "fbgemm_fp8"}, 8, "fp8"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, 8, "fp8"),
        ({"quant_method": "mxfp8", "weight_block_size": [1, 32]}, 8.25, "fp8"),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, 4 + 20 / 128, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, 4.125, "bf16"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, 4 + 20 / 128, "bf16"),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig"}},
            },
            8,
            "fp8",
        ),
        (
            {
                "quant_method": "quark",
                "exclude": ["lm_head"],
                "global_quant_config": {
                    "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32},
                    "input_tensors": {"dtype": "fp4"},
                },
            },
            4.25,
            "fp4",
        ),
        (
            with_groups({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}),
            4.125,
            "bf16",
        ),
        (
            with_groups(
                {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128},
                {"num_bits": 8, "type": "float"},
            ),
            4.125,
            "fp8",
        ),
        (with_groups({"num_bits": 8, "type": "int", "strategy": "channel"}), 8, "bf16"),
        (
            with_groups({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}),
            4.5,
            "fp4",
        ),
    ],
)
def test_bits_and_arithmetic_of_each_method(own: dict[str, Any], bits: float, arithmetic: str) -> None:
    storage = quantised(own)
    found = storage.format_of("model.layers.0.mlp.up_proj")
    assert (found.bits_per_weight, found.arithmetic) == (pytest.approx(bits), arithmetic)
    assert storage.format_of("lm_head").name == "bf16"


def test_several_groups_by_target() -> None:
    own = with_groups(
        {"num_bits": 8, "type": "float", "strategy": "channel"}, {"num_bits": 8, "type": "float"}
    )
    own["config_groups"]["group_1"] = {
        "targets": ["re:.*experts\\.\\d+\\..*"],
        "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
    }
    storage = quantised(own)
    assert names_of(storage, "model.layers.0.mlp.experts.0.up_proj", "model.layers.0.self_attn.q_proj") == [
        *("nvfp4", "fp8-channel")
    ]


def test_gptqmodels_dynamic_rules() -> None:
    dynamic = {
        "-:model\\.layers\\.0\\..*": {},
        "+:.*\\.down_proj": {"bits": 8, "group_size": 32},
    }
    storage = quantised({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic})
    assert storage.format_of("model.layers.0.mlp.down_proj").bits == 16
    assert storage.format_of("model.layers.1.mlp.down_proj").bits == 8
    assert storage.format_of("model.layers.1.mlp.up_proj").bits == 4


def test_modelopts_own_file_and_a_config_without_its_method() -> None:
    own = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", "model.layers.0.self_attn*"],
        },
    }
    storage = quantised(own)
    assert (storage.name, storage.kv) == ("nvfp4", "fp8")
    assert storage.format_of("model.layers.0.self_attn.q_proj").name == "bf16"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"quantization_config": {"quant_method": "aqlm"}}, r"'aqlm' is not known; known are fp8, .*awq"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP5"}}, "NVFP5.*NVFP4"),
        ({"quantization_config": {}, "dtype": "bfloat61"}, "bfloat61"),
        ({"quantization_config": "fp8"}, "not an object"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": "x"}}, "can't be understood"),
        ({"quantization_config": {"quant_method": "awq", "bits": "four"}}, "can't be understood"),
        (
            {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": 3}},
            "can't be understood",
        ),
        ({"quantization_config": with_groups({"num_bits": 3, "type": "float"})}, "3 bits"),
        (
            {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["re:("]}},
            "no regular",
        ),
        ({"quantization_config": {"quant_method": "fp8", "kv_cache_scheme": "FP3"}}, "FP3.*known are fp8"),
    ],
)
def test_bad_input_is_one_line_that_names_it(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_storage(config, "there/config.json")
    assert "\n" not in str(caught.value)
    assert "there/config.json" in str(caught.value)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size is 0"),
        ({"quant_method": "fp8", "weight_block_size": [float("inf"), 128]}, "weight_block_size is inf"),
        ({"quant_method": "fp8", "weight_block_size": {"rows": 128}}, "weight_block_size is"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "'lm_head'; it must be a list"),
        ({"quant_method": "gptq", "bits": 0}, "bits is 0; it must be a whole number from 1 to 8"),
        ({"quant_method": "gptq", "bits": 10**9}, "bits is 1000000000"),
        ({"quant_method": "awq", "bits": 4, "group_size": 127.5}, "group_size is 127.5"),
        ({"quant_method": "awq", "bits": 4, "group_size": -2}, "group_size is -2"),
        ({"quant_method": "awq", "bits": 4, "zero_point": "false"}, "zero_point is 'false'"),
        ({"quant_method": "hqq", "nbits": True}, "nbits is True"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": "no"}, "load_in_8bit is 'no'"),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": float("inf")},
            "group_size is inf",
        ),
        (with_groups({"num_bits": 4, "type": "int", "symmetric": 0}), "symmetric is 0"),
        (with_groups({"num_bits": 8, "type": "float", "block_structure": [128]}), "block_structure is"),
    ],
)
def test_a_value_that_no_method_has_is_refused_by_its_key(own: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        quantised(own)


def test_numbers_may_be_texts() -> None:
    texts = quantised({"quant_method": "gptq", "bits": "8", "group_size": "-1"})
    assert texts == quantised({"quant_method": "gptq", "bits": 8, "group_size": -1})


@pytest.mark.parametrize(
    ("name", "matrix", "embedding", "router", "norm"),
    [
        ("bf16", "bf16", "bf16", "bf16", "bf16"),
        ("float32", "float32", "float32", "float32", "float32"),
        ("nvfp4", "nvfp4", "bf16", "bf16", "bf16"),
        ("q4_k_m", "q4_k_m", "q4_k_m", "float32", "float32"),  # as llama.cpp writes them
    ],
)
def test_one_format_for_all(name: str, matrix: str, embedding: str, router: str, norm: str) -> None:
    modules = ("layers.0.mlp.up_proj", "embed_tokens", "lm_head", "layers.0.mlp.gate", "norm")
    assert names_of(uniform(name), *modules) == [matrix, embedding, embedding, router, norm]


def test_a_format_not_known() -> None:
    with pytest.raises(InputError, match="did you mean"):
        uniform("mxfp5")


@given(st.lists(st.sampled_from(["model", "layers", "3", "h", "ffn", "attn", "router", "w1", "experts"])))
def test_a_name_has_one_spelling(parts: list[str]) -> None:
    once = canonical(".".join(parts))
    assert canonical(once) == once


# --- every config that is at hand, against the libraries' own rules ---

LEAVES = (
    *(
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.o_proj",
        "self_attn.q_a_proj",
        "self_attn.kv_b_proj",
    ),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.shared_experts.up_proj"),
    *(
        "mlp.experts.0.gate_proj",
        "mlp.experts.0.down_proj",
        "linear_attn.in_proj_qkv",
        "linear_attn.out_proj",
    ),
)


def own_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    config = json.loads(path.read_text())
    own = config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}
    return config, own


@needs_shared
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_at_hand_is_read(path: Path) -> None:
    config, own = own_config(path)
    storage = read_storage(config, path.name)
    bits = {storage.format_of(f"model.layers.{i}.{leaf}").bits for i in range(40) for leaf in LEAVES}
    assert (min(bits) < 16) == bool(own)
    assert storage.format_of("model.embed_tokens").bits == 16


@needs_shared
def test_fp8_exclusions_are_those_of_transformers() -> None:
    from transformers.quantizers.quantizers_utils import should_convert_module

    for name in ("Qwen--Qwen3-30B-A3B-FP8", "zai-org--GLM-5-FP8", "Qwen--Qwen3-32B-FP8"):
        path = Path(str(SHARED)) / "data" / "configs" / f"{name}.json"
        config, own = own_config(path)
        storage, excluded = read_storage(config, path.name), own.get("modules_to_not_convert")
        for leaf in (*LEAVES, "mlp.gate") if excluded else LEAVES:
            module = f"model.layers.30.{leaf}"
            assert (storage.format_of(module).bits < 16) == should_convert_module(module, excluded), module


@needs_shared
def test_modelopt_exclusions_are_those_of_fnmatch() -> None:
    prefix = re.compile(r"^(?:language_model\.model|model\.language_model|model)\.")
    seen = 0
    for path in CONFIGS:
        config, own = own_config(path)
        if own.get("quant_algo") not in ("NVFP4", "FP8") or config.get("text_config", {}).get(
            "enable_moe_block"
        ):
            continue
        storage = read_storage(config, path.name)
        patterns = [prefix.sub("model.", each) for each in own["ignore"]]
        seen += 1
        for i in range(48):
            for leaf in LEAVES:
                theirs = f"model.layers.{i}.{leaf}"
                if "qwen3_5" in str(config.get("model_type")):
                    theirs = theirs.replace("shared_experts", "shared_expert")
                held = any(fnmatch.fnmatchcase(theirs, pattern) for pattern in patterns)
                assert (storage.format_of(theirs).bits == 16) == held, (path.name, theirs)
    assert seen > 5


@needs_shared
def test_a_config_of_thousands_of_names() -> None:
    path = Path(str(SHARED)) / "data" / "configs" / "nvidia--MiniMax-M3-NVFP4.json"
    config, own = own_config(path)
    storage = read_storage(config, path.name)
    for name, layer in own["quantized_layers"].items():
        assert storage.format_of(name).name == layer["quant_algo"].lower()


def test_formats_that_rules_name_are_in_the_table() -> None:
    from twophase.model.quantization_methods import ALGORITHMS

    assert set(ALGORITHMS.values()) <= set(FORMATS)
