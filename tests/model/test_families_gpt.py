"""Classic families against transformers' models of small configs, and published totals."""

import csv
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meta_models import cached_elements, meta_model, read_as_counted
from odd_values import ODD_VALUES, taken_or_refused

from twophase.errors import InputError
from twophase.model.cache import kv_bytes, kv_bytes_per_token
from twophase.model.counts import parameters
from twophase.model.families import alibi, gpt
from twophase.model.hf_config import read_hf_config, spec_from_config
from twophase.model.spec import ModelSpec

SHARED = os.environ.get("TWOPHASE_SHARED")
SIZES = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
}
GPT2_SIZES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
CALLED = {
    "bloom": SIZES | {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
    "gpt_neo": SIZES | {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"},
    "mpt": {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"},
}
YES_NO = [True, False]
CHOICES: dict[str, dict[str, list[Any]]] = {
    "gpt2": {"n_inner": [None, 40], "n_positions": [64], "scale_attn_by_inverse_layer_idx": YES_NO},
    "gpt_bigcode": {"n_inner": [None, 40], "multi_query": YES_NO, "scale_attn_weights": YES_NO},
    "gptj": {"n_inner": [None, 40], "rotary_dim": [4, 8]},
    "codegen": {"n_inner": [None, 40], "rotary_dim": [4, 8]},
    "gpt_neo": {"intermediate_size": [None, 40], "window_size": [8, 16], "max_position_embeddings": [32]},
    "gpt_neox": {"intermediate_size": [40], "attention_bias": YES_NO, "use_parallel_residual": YES_NO},
    "opt": {
        "ffn_dim": [40],
        "word_embed_proj_dim": [None, 24],
        "do_layer_norm_before": YES_NO,
        "_remove_final_layer_norm": YES_NO,
        "enable_bias": YES_NO,
        "layer_norm_elementwise_affine": YES_NO,
        "max_position_embeddings": [48],
    },
    "bloom": {},
    "falcon": {
        "num_kv_heads": [None, 1, 2],
        "alibi": YES_NO,
        "new_decoder_architecture": YES_NO,
        "multi_query": YES_NO,
        "parallel_attn": YES_NO,
        "num_ln_in_parallel_attn": [None, 1, 2],
        "bias": YES_NO,
        "ffn_hidden_size": [None, 40],
    },
    "mpt": {"attn_config": [{}, {"softmax_scale": 0.25}], "max_seq_len": [128]},
    "phi": {"intermediate_size": [40], "num_key_value_heads": [None, 2], "qk_layernorm": YES_NO},
    "persimmon": {"intermediate_size": [40], "qk_layernorm": YES_NO},
    "stablelm": {
        "intermediate_size": [40],
        "num_key_value_heads": [2],
        "use_qkv_bias": YES_NO,
        "qk_layernorm": YES_NO,
        "use_parallel_residual": YES_NO,
    },
    "starcoder2": {
        "intermediate_size": [40],
        "num_key_value_heads": [2],
        "use_bias": YES_NO,
        "sliding_window": [None, 16],
    },
}


def small_config(family: str, seed: int) -> dict[str, Any]:
    pick = random.Random(f"{family} {seed}")
    heads = pick.choice([2, 4, 8])
    sizes = {
        "hidden_size": heads * pick.choice([8, 16]),
        "num_hidden_layers": pick.choice([2, 4]),
        "num_attention_heads": heads,
    }
    names = CALLED.get(family, GPT2_SIZES if family in ("gpt2", "gpt_bigcode", "gptj", "codegen") else SIZES)
    config: dict[str, Any] = {names[key]: value for key, value in sizes.items()}
    config |= {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config["tie_word_embeddings"] = pick.random() < 0.5
    if family == "gpt_neo":
        config["attention_types"] = [[["global", "local"], sizes["num_hidden_layers"] // 2]]
    return config | {key: pick.choice(values) for key, values in CHOICES[family].items()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", CHOICES)
def test_as_transformers_counts(family: str, seed: int, tmp_path: Path) -> None:
    model = meta_model(family, **small_config(family, seed))
    spec = read_as_counted(model, tmp_path)
    config = model.config
    assert (spec.vocab_size, spec.d_model) == (config.vocab_size, config.hidden_size)
    assert len(spec.layers) == config.num_hidden_layers
    assert all(layer.attention.heads == config.num_attention_heads for layer in spec.layers)
    scales = [
        getattr(each, "scaling", getattr(each, "softmax_scale", getattr(each, "inv_norm_factor", 1.0)))
        for each in model.modules()
        if type(each).__name__.endswith("Attention") and type(each).__name__ != "GPTNeoAttention"
    ]
    assert [layer.attention.scale for layer in spec.layers] == pytest.approx(scales, rel=1e-12)


@pytest.mark.parametrize("family", CHOICES)
def test_a_pass_caches_what_is_counted(family: str, tmp_path: Path) -> None:
    config = small_config(family, 0) | ({"new_decoder_architecture": False} if family == "falcon" else {})
    model = meta_model(family, device="cpu", **config)
    assert kv_bytes(read_as_counted(model, tmp_path), 3) == 2 * cached_elements(model, 3)


def read(model_type: str, **keys: Any) -> ModelSpec:
    return spec_from_config({"vocab_size": 100, **keys, "model_type": model_type}, "small", "config.json")


NEO = {"hidden_size": 64, "num_heads": 4, "num_layers": 4}
GPT2 = {"n_embd": 64, "n_head": 4, "n_layer": 2}
MPT = {"d_model": 64, "n_heads": 4, "n_layers": 2}
FALCON = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8}
PHI = {**FALCON, "intermediate_size": 96, "num_key_value_heads": 8}


def test_which_positions_a_family_has() -> None:
    assert read("gpt2", **GPT2).layers[0].attention.rope is None
    assert read("bloom", **FALCON).layers[0].attention.rope is None
    assert read("falcon", **FALCON, alibi=True).layers[0].attention.rope is None
    falcon = read("falcon", **FALCON, rope_theta=5e5).layers[0].attention.rope
    assert falcon is not None and (falcon.theta, falcon.share) == (5e5, 1.0)
    gptj = read("gptj", **GPT2, rotary_dim=8).layers[0].attention.rope
    assert gptj is not None and gptj.share == 0.5  # 8 of a head's 16
    pythia = read("gpt_neox", **PHI, rotary_emb_base=20_000).layers[0].attention.rope
    assert pythia is not None and (pythia.theta, pythia.share) == (20_000, 0.25)
    assert [read(each, **PHI).layers[0].attention.rope.share for each in ("phi", "stablelm")] == [0.5, 0.25]


def test_gpt_neo_slides_where_it_is_local() -> None:
    """EleutherAI/gpt-neo-1.3B: global and local in turn, 256 tokens wide."""
    spec = read("gpt_neo", **NEO, attention_types=[[["global", "local"], 2]])
    assert [layer.attention.window for layer in spec.layers] == [None, 256, None, 256]
    assert spec.layers[0].attention.scale == 1.0


def test_bloom_by_its_published_keys() -> None:
    """bigscience/bloom names its width n_embed, its layers n_layer and its heads num_attention_heads."""
    published = {"n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "seq_length": 2048}
    spec = read("bloom", **published | {"vocab_size": 250880})
    assert parameters(spec).total == 176_247_271_424  # the model card's
    assert spec.context_length == 2048


def test_opt_350m_by_its_published_total() -> None:
    """facebook/opt-350m: 331,196,416 parameters; embedded in 512 dimensions, norms after its blocks."""
    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096}
    spec = read("opt", **sizes, vocab_size=50272, word_embed_proj_dim=512, do_layer_norm_before=False)
    assert parameters(spec).total == 331_196_416


def test_starcoder_has_one_key_value_head() -> None:
    """bigcode/starcoder: 15.5 B parameters, 40 layers of one head of 128 (multi_query)."""
    spec = read("gpt_bigcode", n_embd=6144, n_head=48, n_layer=40, n_positions=8192, n_inner=24576)
    assert kv_bytes_per_token(spec) == 2 * 40 * 128 * 2


@pytest.mark.parametrize(
    ("model_type", "keys", "says"),
    [
        ("gpt2", GPT2 | {"n_embd": None}, "config.json has no n_embd"),
        ("gpt2", GPT2 | {"n_head": 0}, "n_head is 0; it must be a whole number of at least 1"),
        ("gpt2", GPT2 | {"add_cross_attention": True}, "sets add_cross_attention"),
        ("gptj", GPT2 | {"rotary_dim": 32}, "rotary_dim is 32"),
        ("mpt", MPT | {"no_bias": False}, "no_bias is false"),
        ("mpt", MPT | {"attn_config": {"qk_ln": True}}, "sets qk_ln"),
        ("mpt", MPT | {"attn_config": {"alibi": False}}, "alibi"),
        ("gpt_neo", NEO | {"attention_types": [[["global"], 3]]}, "attention_types must name 4 layers"),
        ("gpt_neo", NEO | {"attention_types": [["far", 4]]}, "attention_types must name 4 layers"),
        ("gpt_neo", NEO | {"attention_types": 7}, "attention_types must name 4 layers"),
        ("falcon", FALCON | {"num_kv_heads": 3, "new_decoder_architecture": True}, "can't share 3"),
    ],
)
def test_what_is_wrong_is_named(model_type: str, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        read(model_type, **keys)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@given(st.sampled_from(sorted(CHOICES)), st.integers(0, 3), st.data())
def test_any_value_is_taken_or_refused_in_one_line(family: str, seed: int, data: st.DataObject) -> None:
    config = small_config(family, seed) | {"model_type": family}
    key = data.draw(st.sampled_from([*sorted(set(config) - {"model_type"}), "rope_scaling", "n_embed"]))
    taken_or_refused(config, key, data.draw(ODD_VALUES))


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_published_configs_count_as_published() -> None:
    configs = Path(SHARED or "") / "data" / "configs"
    with (configs / "params.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["model_type"] in {**gpt.READERS, **alibi.READERS}]
    for row in rows:
        own = parameters(read_hf_config(configs / f"{row['file']}.json"))
        assert own.total == int(row["total_params_text"]), row["file"]
        assert own.active == int(row["active_params_text_incl_embed_and_head"]), row["file"]
        assert own.active_without_embedding == int(row["active_excl_input_embedding"]), row["file"]
    assert len(rows) == 12


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_kv_cache_as_an_engine_logged_it() -> None:
    """Case FIT-15: phi-2 in vLLM 0.19.0 takes 327,680 bytes a token."""
    spec = read_hf_config(Path(SHARED or "") / "data" / "configs" / "microsoft--phi-2.json")
    assert kv_bytes_per_token(spec) == 327_680
