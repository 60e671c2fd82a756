"""Mixtures of experts against transformers' own models of them, published totals, and engine logs."""

import csv
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from meta_models import cached_elements, meta_model, unique_parameters

from twophase.errors import InputError
from twophase.model.cache import kv_bytes, kv_bytes_per_token, kv_bytes_per_token_unbounded, state_bytes
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.families.minimax import READERS as MINIMAX
from twophase.model.families.moe import READERS as ORDINARY
from twophase.model.families.moe_sparse import READERS as SPARSE
from twophase.model.families.qwen_vl import READERS as QWEN_VL
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention
from twophase.model.spec import ModelSpec, MoE

SHARED = os.environ.get("TWOPHASE_SHARED")
SLIDING, FULL = "sliding_attention", "full_attention"
ROPES = (
    {"rope_type": "default", "rope_theta": 2e4},
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
)
VISION = {"num_hidden_layers": 1, "depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}


def small(pick: random.Random, **keys: Any) -> dict[str, Any]:
    return {
        "vocab_size": pick.choice([96, 100]),
        "hidden_size": 64,
        "intermediate_size": 48,
        "num_hidden_layers": pick.choice([2, 5]),
        "num_attention_heads": pick.choice([4, 8]),
        "num_key_value_heads": pick.choice([1, 2]),
        "max_position_embeddings": 128,
        "tie_word_embeddings": pick.choice([True, False]),
        "rope_parameters": dict(pick.choice(ROPES)),
        "num_experts_per_tok": pick.choice([1, 3]),
        "pad_token_id": None,
        **keys,
    }


def kinds(pick: random.Random, layers: int, *known: str) -> list[str]:
    return [pick.choice(known) for _ in range(layers)]


def random_config(family: str, seed: int) -> dict[str, Any]:
    """Keys of a small config; what a family has of its own differs from seed to seed."""
    pick = random.Random(f"{family}{seed}")
    keys = small(pick)
    layers, bias = keys["num_hidden_layers"], pick.choice([True, False])
    head_dim, window = pick.choice([8, 32]), pick.choice([16, None])
    slide = kinds(pick, layers, SLIDING, FULL)
    mlps = pick.choice([None, kinds(pick, layers, "dense", "sparse")])
    routed = {"n_routed_experts": 6, "moe_intermediate_size": 24, "n_shared_experts": pick.choice([1, 2])}
    first = {"first_k_dense_replace": pick.choice([0, 1, 9])}
    qwen = {
        "num_experts": 6,
        "moe_intermediate_size": 24,
        "decoder_sparse_step": pick.choice([1, 2]),
        "mlp_only_layers": pick.choice([[], [1]]),
        "use_sliding_window": pick.choice([True, False]),
        "sliding_window": 16,
    }
    own: dict[str, dict[str, Any]] = {
        "mixtral": {"num_local_experts": 6, "sliding_window": window, "head_dim": pick.choice([None, 32])},
        "phimoe": {
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "attention_bias": bias,
            "lm_head_bias": not bias,
            "tie_word_embeddings": False,
            "sliding_window": window,
            "rope_parameters": ROPES[0],
        },
        "olmoe": {"num_experts": 6, "attention_bias": bias},
        "granitemoe": {"num_local_experts": 6, "attention_bias": bias, "attention_multiplier": 0.25},
        "granitemoeshared": {"num_local_experts": 6, "shared_intermediate_size": pick.choice([0, 40])},
        "qwen2_moe": {
            **qwen,
            "shared_expert_intermediate_size": 40,
            "qkv_bias": bias,
            "max_window_layers": pick.choice([0, 3]),
        },
        "qwen3_moe": {**qwen, "attention_bias": bias, "head_dim": head_dim},
        "glm4_moe": {
            **routed,
            **first,
            "attention_bias": bias,
            "use_qk_norm": not bias,
            "head_dim": head_dim,
        },
        "dots1": {
            **routed,
            **first,
            "attention_bias": bias,
            "max_window_layers": 2,
            "sliding_window": window,
        },
        "exaone_moe": {
            "num_experts": 6,
            "num_shared_experts": pick.choice([1, 2]),
            "moe_intermediate_size": 24,
            "mlp_layer_types": mlps,
            "sliding_window_pattern": pick.choice([2, 4]),
            "sliding_window": 16,
            "head_dim": head_dim,
        },
        "ernie4_5_moe": {
            "moe_num_experts": 6,
            "moe_k": 2,
            "moe_num_shared_experts": pick.choice([0, 2]),
            "moe_intermediate_size": 24,
            "moe_layer_start_index": pick.choice([0, 1]),
            "moe_layer_end_index": pick.choice([-1, 3]),
            "moe_layer_interval": pick.choice([1, 2]),
            "use_bias": bias,
        },
        "hunyuan_v1_moe": {"num_experts": 6, "moe_topk": 2, "attention_bias": bias, "head_dim": head_dim},
        "minimax_m2": {"num_local_experts": 6, "head_dim": head_dim},
        "minimax": {
            "num_local_experts": 6,
            "head_dim": pick.choice([None, 32]),
            "layer_types": pick.choice([None, kinds(pick, layers, "linear_attention", FULL)]),
        },
        "minimax_m3_vl_text": {
            "num_local_experts": 6,
            "dense_intermediate_size": 80,
            "shared_intermediate_size": 40,
            "head_dim": 32,
            "mlp_layer_types": mlps,
            "layer_types": pick.choice([None, kinds(pick, layers, "minimax_m3_sparse", FULL)]),
            "index_n_heads": 2,
            "index_head_dim": 16,
            "index_block_size": 4,
            "index_topk_blocks": 3,
        },
        "gpt_oss": {
            "num_local_experts": 6,
            "head_dim": head_dim,
            "attention_bias": bias,
            "sliding_window": 16,
            "layer_types": pick.choice([None, slide]),
        },
        "llama4_text": {
            "num_local_experts": 6,
            "intermediate_size_mlp": 80,
            "head_dim": head_dim,
            "interleave_moe_layer_step": pick.choice([1, 2]),
            "moe_layers": pick.choice([None, [1]]),
            "no_rope_layers": pick.choice([None, [1, 0, 1, 1, 0][:layers]]),
            "attention_chunk_size": pick.choice([16, None]),
            "attention_bias": bias,
        },
        "mimo_v2_flash": {
            "n_routed_experts": 6,
            "moe_intermediate_size": 24,
            "head_dim": 24,
            "v_head_dim": 16,
            "attention_bias": bias,
            "sliding_window": 16,
            "mlp_layer_types": mlps,
            "layer_types": pick.choice([None, slide]),
            "rope_parameters": None,
        },
    }
    return keys | own[family]


FAMILIES = sorted(
    {*ORDINARY, *SPARSE, *MINIMAX} & {*transformers.CONFIG_MAPPING} - {"step3p7", "minimax_m3_vl"}
)
CAUSAL = [family for family in FAMILIES if family not in ("dbrx", "qwen3_vl_moe_text", "step3p5")]


def saved(config: Any, folder: Path) -> ModelSpec:
    config.save_pretrained(folder)
    return load_spec(str(folder))


def routed_weights(model: torch.nn.Module) -> int:
    return sum(each.numel() for key, each in model.named_parameters() if re.search(r"\.experts\.", key))


def check_active(spec: ModelSpec, routed: int) -> None:
    """All mixtures of a model are alike: a token uses top_k of its experts."""
    own = parameters(spec)
    blocks = {layer.feed_forward for layer in spec.layers if isinstance(layer.feed_forward, MoE)}
    for block in blocks:
        assert own.active == own.total - routed // block.experts * (block.experts - block.top_k)
    assert len(blocks) == (routed > 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", CAUSAL)
def test_as_transformers_builds_it(family: str, seed: int, tmp_path: Path) -> None:
    model = meta_model(family, **random_config(family, seed))
    spec = saved(model.config, tmp_path)
    assert parameters(spec).total == unique_parameters(model)
    check_active(spec, routed_weights(model))
    theirs = model.config
    assert (spec.vocab_size, spec.context_length) == (theirs.vocab_size, theirs.max_position_embeddings)
    assert spec.tied_embeddings == theirs.tie_word_embeddings
    assert spec.norm_eps == theirs.rms_norm_eps
    for layer, block in zip(spec.layers, model.model.layers, strict=True):
        (own,) = layer.mixers
        attention = block.self_attn
        if isinstance(own, Attention):
            assert own.scale == pytest.approx(attention.scaling, rel=1e-12)
            assert own.head_dim == attention.head_dim
            assert own.heads // own.kv_heads == attention.num_key_value_groups
            if family in ("mixtral", "phimoe", "qwen3_moe"):
                assert own.window == theirs.sliding_window
            if own.rope is not None:
                kind = SLIDING if own.window else FULL
                rope = theirs.rope_parameters.get(kind, theirs.rope_parameters)
                assert (own.rope.theta, own.rope.scaling) == (rope["rope_theta"], rope["rope_type"])
                assert own.rope.share == rope.get("partial_rotary_factor", 1.0)


@pytest.mark.parametrize("family", [each for each in CAUSAL if each not in ("minimax", "minimax_m3_vl_text")])
def test_the_cache_holds_what_transformers_caches(family: str, tmp_path: Path) -> None:
    model = meta_model(family, "cpu", **random_config(family, 7))
    assert kv_bytes_per_token(saved(model.config, tmp_path), 1.0) * 3 == cached_elements(model, 3)


@pytest.mark.parametrize(
    "family", ["qwen2_moe", "dots1", "exaone_moe", "gpt_oss", "mimo_v2_flash", "llama4_text"]
)
@pytest.mark.parametrize("seed", range(3))
def test_layers_see_what_transformers_lets_them_see(family: str, seed: int, tmp_path: Path) -> None:
    """window - 1 tokens before a row, or those of its chunk: as its own layer_types say."""
    config = transformers.CONFIG_MAPPING[family](**random_config(family, seed))
    spec = saved(config, tmp_path)
    window = getattr(config, "sliding_window", None) or None
    for kind, layer in zip(config.layer_types, spec.layers, strict=True):
        assert layer.attention.window == (window if kind == SLIDING else None)
        assert layer.attention.chunk == (16 if kind == "chunked_attention" else None)
    if family == "llama4_text":
        assert [layer.attention.rope is not None for layer in spec.layers] == list(
            map(bool, config.no_rope_layers)
        )


def text_of(config: Any, architecture: str) -> tuple[int, int]:
    """(parameters of a multimodal model's language model, those of its routed experts)."""
    with torch.device("meta"):
        model = getattr(transformers, architecture)(config)
    text = model.model.language_model
    head = 0 if model.lm_head.weight is text.embed_tokens.weight else model.lm_head.weight.numel()
    return unique_parameters(text) + head, routed_weights(text)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("family", "prefix"),
    [
        ("qwen3_vl_moe", "Qwen3VLMoe"),
        ("qwen3_vl", "Qwen3VL"),
        ("qwen2_vl", "Qwen2VL"),
        ("qwen2_5_vl", "Qwen2_5_VL"),
        ("step3p7", "Step3p7"),
    ],
)
def test_language_models_inside_wrappers(family: str, prefix: str, tied: bool, tmp_path: Path) -> None:
    pick = random.Random(f"{family}{tied}")
    text = small(pick, num_hidden_layers=5, rope_parameters=None)
    del text["tie_word_embeddings"], text["rope_parameters"]
    if family == "qwen3_vl_moe":
        text |= {"num_experts": 6, "moe_intermediate_size": 24, "mlp_only_layers": [2], "head_dim": 32}
    elif family == "step3p7":
        del text["pad_token_id"]
        text |= {"n_routed_experts": 6, "moe_intermediate_size": 24, "share_expert_dim": 40, "head_dim": 32}
        text |= {"layer_types": [FULL, SLIDING, SLIDING, SLIDING, FULL], "sliding_window": 16}
        text |= {"num_sliding_attention_heads": 16, "mlp_bias": tied, "attention_bias": not tied}
    else:
        del text["num_experts_per_tok"]
    if family in ("qwen3_vl_moe", "step3p7"):  # the inner class has the key too
        text["tie_word_embeddings"] = tied
    config = transformers.CONFIG_MAPPING[family](
        text_config=text, vision_config=VISION, tie_word_embeddings=tied
    )
    total, routed = text_of(config, f"{prefix}ForConditionalGeneration")
    spec = saved(config, tmp_path)
    assert parameters(spec).total == total
    assert spec.tied_embeddings == tied
    check_active(spec, routed)


def test_step_files_of_the_hub_use_older_keys() -> None:
    """Lists hold two draft layers too; sliding layers have heads of their own, and no stretched rotation."""
    layers = [FULL, SLIDING, SLIDING, FULL]
    keys = {
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 80,
        "num_hidden_layers": 4,
        "num_nextn_predict_layers": 2,
        "num_attention_heads": 4,
        "num_attention_groups": 2,
        "head_dim": 16,
        "layer_types": [*layers, SLIDING, FULL],
        "sliding_window": 8,
        "attention_other_setting": {"num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 16},
        "moe_layers_enum": "1,3",
        "moe_num_experts": 6,
        "moe_top_k": 3,
        "moe_intermediate_size": 24,
        "share_expert_dims": 40,
        "max_position_embeddings": 128,
        "rope_theta": [5e6, 1e4, 1e4, 5e6, 1e4, 5e6],
        "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5, 1.0, 0.5],
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
    }
    config = transformers.CONFIG_MAPPING["step3p7"](text_config=dict(keys), vision_config=VISION)
    total, routed = text_of(config, "Step3p7ForConditionalGeneration")
    spec = spec_from_config({**keys, "model_type": "step3p5"}, "", "")
    assert parameters(spec).total == total
    check_active(spec, routed)
    assert spec.draft_layers == 2
    theirs = config.text_config.rope_parameters
    for kind, layer in zip(layers, spec.layers, strict=True):
        rope = layer.attention.rope
        assert rope is not None
        assert (rope.theta, rope.share) == (theirs[kind]["rope_theta"], theirs[kind]["partial_rotary_factor"])
        assert (rope.scaling, rope.factor) == (theirs[kind]["rope_type"], theirs[kind].get("factor", 1.0))
        assert layer.attention.window == (8 if kind == SLIDING else None)


def test_qwen2_vl_files_may_be_flat() -> None:
    flat = small(random.Random(0), model_type="qwen2_vl", use_sliding_window=False, vision_config={})
    del flat["rope_parameters"]
    flat["rope_scaling"] = {"type": "mrope", "mrope_section": [1, 1, 2]}
    config = transformers.Qwen2VLConfig(**flat | {"vision_config": VISION})
    total, _ = text_of(config, "Qwen2VLForConditionalGeneration")
    assert parameters(spec_from_config(flat, "", "")).total == total


@pytest.mark.parametrize("seed", range(3))
def test_dbrx(seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    attention = {"kv_n_heads": pick.choice([1, 2]), "rope_theta": 5e5, "clip_qkv": 8}
    experts = {"ffn_hidden_size": 24, "moe_num_experts": 6, "moe_top_k": pick.choice([1, 4])}
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": 3, "max_seq_len": 128, "vocab_size": 96}
    model = meta_model("dbrx", **sizes, attn_config=attention, ffn_config=experts)
    spec = saved(model.config, tmp_path)
    assert parameters(spec).total == unique_parameters(model)
    check_active(spec, routed_weights(model))
    assert spec.layers[0].attention.kv_heads == attention["kv_n_heads"]
    assert spec.context_length == 128


def test_hunyuan_may_vary_how_many_experts_a_layer_uses(tmp_path: Path) -> None:
    keys = small(random.Random(1), num_hidden_layers=3, num_experts=6, moe_topk=[1, 2, 3], head_dim=16)
    del keys["num_experts_per_tok"]
    model = meta_model("hunyuan_v1_moe", **keys)
    spec = saved(model.config, tmp_path)
    own = parameters(spec)
    expert = 3 * 64 * 48
    assert own.total == unique_parameters(model)
    assert own.active == own.total - expert * (5 + 4 + 3)


def test_indexed_layers_of_minimax_m3() -> None:
    """The published spelling; 3 blocks of 4 keys are attended to, a key of 16 bytes is cached beside."""
    flags = [0, 1]
    sparse = {
        "sparse_num_index_heads": 2,
        "sparse_index_dim": 16,
        "sparse_block_size": 4,
        "sparse_topk_blocks": 3,
    }
    keys = small(
        random.Random(2), num_hidden_layers=2, num_key_value_heads=2, head_dim=32, num_local_experts=6
    )
    keys |= {
        "model_type": "minimax_m3_vl_text",
        "dense_intermediate_size": 80,
        "shared_intermediate_size": 40,
    }
    keys["moe_layer_freq"] = flags
    keys["sparse_attention_config"] = {**sparse, "sparse_attention_freq": flags}
    spec = spec_from_config(keys, "", "")
    del keys["model_type"]
    assert parameters(spec).total == unique_parameters(meta_model("minimax_m3_vl_text", **keys))
    full, indexed = (layer.attention for layer in spec.layers)
    assert (full.top_k, indexed.top_k) == (None, 12)
    assert kv_bytes_per_token(spec) == 2 * (2 * 2 * 32 * 2) + 16 + 4


def test_state_of_lightning_attention() -> None:
    """heads · head_dim² in float32 for each linear layer, and keys and values only in the others."""
    keys = {
        **small(random.Random(3)),
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    keys |= {"model_type": "minimax", "num_local_experts": 6, "head_dim": 32, "attn_type_list": [0, 0, 0, 1]}
    spec = spec_from_config(keys, "", "")
    assert state_bytes(spec) == 3 * 4 * 32 * 32 * 4
    assert kv_bytes_per_token(spec) == 2 * 2 * 32 * 2


MINIMAX_01 = {  # arXiv 2501.08313: 456 B parameters, 45.9 B active, softmax attention in every eighth layer
    "model_type": "minimax_text_01",
    "vocab_size": 200064,
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 10240000,
    "rotary_dim": 64,
    "shared_intermediate_size": 0,
    "attn_type_list": [int(i % 8 == 7) for i in range(80)],
}


def test_minimax_01_as_its_paper_counts_it() -> None:
    spec = spec_from_config(MINIMAX_01, "", "")
    assert parameters(spec).total / 1e9 == pytest.approx(456, abs=0.5)
    tables = 2 * 200064 * 6144  # the paper's 45.9 B leave out embedding and head
    assert (parameters(spec).active - tables) / 1e9 == pytest.approx(45.9, abs=0.06)
    assert spec.layers[7].attention.rope.share == 0.5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "mixtral", "num_experts_per_tok": 7}, "num_experts_per_tok is 7"),
        ({"model_type": "mixtral", "num_local_experts": None}, "config.json has no num_local_experts"),
        ({"model_type": "mixtral", "intermediate_size": "48"}, "intermediate_size is '48'"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": 3}, "mlp_only_layers is 3; it must be a list"),
        ({"model_type": "llama4_text", "moe_layers": 3}, "moe_layers is 3; it must be a list"),
        (
            {"model_type": "llama4_text", "no_rope_layers": [1]},
            "no_rope_layers must hold an entry for each of 2",
        ),
        ({"model_type": "gpt_oss", "layer_types": ["full"] * 2}, "each sliding_attention or full_attention"),
        ({"model_type": "minimax_m2", "qk_norm_type": "per_head"}, "qk_norm_type must be per_layer"),
        ({"model_type": "minimax_m3", "attention_output_gate": True}, "sets attention_output_gate"),
        ({"model_type": "hunyuan_v1_moe", "use_cla": True}, "sets use_cla"),
        ({"model_type": "step3p5", "use_bidirectional_attention": True}, "sets use_bidirectional_attention"),
        (
            {"model_type": "step3p5", "moe_layers_enum": "3,x"},
            "moe_layers_enum is '3,x'; it must name layers",
        ),
        (
            {"model_type": "mimo_v2_flash", "hybrid_layer_pattern": [1]},
            "hybrid_layer_pattern must hold an entry",
        ),
        ({"model_type": "dbrx"}, "config.json, attn_config has no kv_n_heads"),
    ],
)
def test_unusable_configs_are_refused_in_one_line(changes: dict[str, Any], says: str) -> None:
    keys = small(
        random.Random(0), num_hidden_layers=2, num_local_experts=6, num_experts=6, moe_intermediate_size=24
    )
    with pytest.raises(InputError) as refused:
        spec_from_config({**keys, "head_dim": 16, **changes}, "", "config.json")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


STEP_VOCABULARY = 128_815  # the row's; transformers' class default, where the file says 128,896


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_published_configs_count_as_published() -> None:
    configs = Path(SHARED or "") / "data" / "configs"
    read = 0
    with (configs / "params.csv").open() as file:
        for row in csv.DictReader(file):
            config = json.loads((configs / f"{row['file']}.json").read_text())
            inner = (config.get("text_config") or {}).get("model_type") or config["model_type"]
            if inner not in {*ORDINARY, *SPARSE, *MINIMAX, *QWEN_VL} or row["status"] != "ok":
                continue
            read += 1
            if inner == "step3p7":
                config["vocab_size"] = STEP_VOCABULARY
            spec = spec_from_config(config, "", row["file"])
            own = parameters(spec)
            assert own.total == int(row["total_params_text"]), row["file"]
            assert own.active == int(row["active_params_text_incl_embed_and_head"]), row["file"]
            assert own.active_without_embedding == int(row["active_excl_input_embedding"]), row["file"]
            assert spec.tied_embeddings == (row["tied"] == "True"), row["file"]
    assert read == 21


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_minimax_m3_is_the_language_model_of_its_wrapper() -> None:
    configs = Path(SHARED or "") / "data" / "configs"
    flat = load_spec(str(configs / "MiniMaxAI--MiniMax-M3.json"))
    wrapped = load_spec(str(configs / "nvidia--MiniMax-M3-NVFP4.json"))
    assert parameters(flat).total == parameters(wrapped).total == 426_174_565_632
    assert flat.layers == wrapped.layers
    assert [layer.attention.top_k for layer in flat.layers[2:4]] == [None, 16 * 128]


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
@pytest.mark.parametrize(
    ("file", "tp", "element", "expected"),
    [
        ("openai--gpt-oss-20b", 1, 2, 49_152),  # cases.md, all layers
        ("nvidia--MiniMax-M2.7-NVFP4", 2, 2, 126_976),  # fit_cases.csv FIT-49
        ("nvidia--MiniMax-M2.5-NVFP4", 4, 2, 63_488),  # FIT-47
        ("nvidia--Qwen3-235B-A22B-NVFP4", 4, 2, 48_128),  # FIT-51
        ("Qwen--Qwen3-30B-A3B-FP8", 1, 1, 49_152),  # FIT-53
        ("Qwen--Qwen3-30B-A3B", 8, 2, 24_576),  # cases.md FIT-08: four heads on eight devices
    ],
)
def test_kv_cache_as_engines_allocate_it(file: str, tp: int, element: int, expected: int) -> None:
    spec = load_spec(str(Path(SHARED or "") / "data" / "configs" / f"{file}.json"))
    assert kv_bytes(spec, 1, element, tp) == expected


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_windows_of_gpt_oss_and_chunks_of_llama_4() -> None:
    """llama.cpp allocates 3072 MiB for gpt-oss-20b's full layers, 131,072 tokens (fit_cases.csv FIT-79)."""
    configs = Path(SHARED or "") / "data" / "configs"
    spec = load_spec(str(configs / "openai--gpt-oss-20b.json"))
    assert kv_bytes_per_token_unbounded(spec) == 24_576
    assert kv_bytes(spec, 131_072) == 3072 * 2**20 + 128 * 24_576
    scout = load_spec(str(configs / "RedHatAI--Llama-4-Scout-17B-16E-Instruct-FP8-dynamic.json"))
    entry = 2 * 8 * 128 * 2
    assert kv_bytes(scout, 100_000) == entry * (36 * 8192 + 12 * 100_000)
    mimo = load_spec(str(configs / "XiaomiMiMo--MiMo-V2-Flash.json"))
    entry = (192 + 128) * 2  # a key and a value head: 39 sliding layers with 8, 9 full ones with 4
    assert kv_bytes(mimo, 1000) == entry * (39 * 8 * 129 + 9 * 4 * 1000)
