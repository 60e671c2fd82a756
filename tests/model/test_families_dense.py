"""Dense families against transformers' models of small configs, published totals and published shapes."""

import csv
import math
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
from twophase.model.families import dense, dense_remote, dense_sliding
from twophase.model.hf_config import read_hf_config, spec_from_config
from twophase.model.spec import ModelSpec

SHARED = os.environ.get("TWOPHASE_SHARED")
YES_NO = [True, False]
BIAS, MLP_BIAS = {"attention_bias": YES_NO}, {"mlp_bias": YES_NO}
WINDOW = {"sliding_window": [8, 16]}
MULTIPLIERS = {"attention_multiplier": [0.125], "embedding_multiplier": [1.0, 12.0]}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "arcee": BIAS | MLP_BIAS | {"head_dim": [None, 32]},
    "nemotron": BIAS | MLP_BIAS | {"head_dim": [None, 32]},
    "jais2": BIAS | MLP_BIAS,
    "phi3": {"sliding_window": [None, 16], "partial_rotary_factor": [1.0, 0.5]},
    "ministral3": {"sliding_window": [None, 16], "head_dim": [8, 32]},
    "gemma": BIAS | {"head_dim": [8, 32]},
    "cohere": BIAS | {"use_qk_norm": YES_NO},
    "olmo": BIAS | {"clip_qkv": [None, 8.0]},
    "olmo2": BIAS,
    "exaone": BIAS | MLP_BIAS | {"head_dim": [None, 32]},
    "granite": BIAS | MLP_BIAS | MULTIPLIERS,
    "hyperclovax": BIAS | MLP_BIAS | MULTIPLIERS | {"use_post_norm": YES_NO},
    "glm": BIAS | {"head_dim": [8, 32]},
    "glm4": BIAS | {"head_dim": [8, 32]},
    "seed_oss": BIAS | MLP_BIAS | {"attention_out_bias": YES_NO, "head_dim": [32]},
    "helium": BIAS | MLP_BIAS,
    "hunyuan_v1_dense": BIAS | {"head_dim": [8, 32]},
    "ernie4_5": {"use_bias": YES_NO, "head_dim": [None, 32]},
    "internlm3": {"head_dim": [None, 32]},
    "iquestcoder": BIAS | MLP_BIAS,
    "apertus": BIAS | {"hidden_act": ["xielu", "relu2"]},
    "nanochat": BIAS | {"final_logit_softcapping": [None, 15.0]},
    "gemma2": BIAS | WINDOW | {"head_dim": [8, 32], "query_pre_attn_scalar": [16, 144]},
    "vaultgemma": BIAS | WINDOW | {"head_dim": [8, 32], "query_pre_attn_scalar": [16, 144]},
    "cohere2": BIAS | WINDOW,
    "olmo3": BIAS | WINDOW,
    "exaone4": WINDOW | {"sliding_window_pattern": [2, 4]},
    "ministral": {"sliding_window": [None, 16], "head_dim": [8, 32]},
    "cwm": WINDOW | MLP_BIAS | {"head_dim": [32]},
    "smollm3": BIAS | MLP_BIAS | WINDOW | {"use_sliding_window": YES_NO, "no_rope_layer_interval": [2, 4]},
    "granite_swa": BIAS | MLP_BIAS | WINDOW | MULTIPLIERS,
}
HEAD_DIM_IS_SHARED_OUT = ("helium",)  # its output projection is d_model square


def small_config(family: str, seed: int) -> dict[str, Any]:
    pick = random.Random(f"{family} {seed}")
    heads = pick.choice([2, 4, 8])
    width = pick.choice([8, 16])
    config: dict[str, Any] = {
        "vocab_size": 100,
        "hidden_size": heads * width,
        "intermediate_size": 40,
        "num_hidden_layers": pick.choice([1, 4, 6]),
        "num_attention_heads": heads,
        "num_key_value_heads": pick.choice([1, 2, heads]),
        "tie_word_embeddings": pick.random() < 0.5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 12345.0},
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if family in HEAD_DIM_IS_SHARED_OUT:
        config["head_dim"] = width
    if family == "ministral3":  # theirs runs with YaRN alone, its default
        del config["rope_parameters"]
    if family == "olmo3":
        config["rope_parameters"] = {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 12345.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 12345.0},
        }
    return config | {key: pick.choice(values) for key, values in CHOICES[family].items()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", CHOICES)
def test_as_transformers_counts(family: str, seed: int, tmp_path: Path) -> None:
    model = meta_model(family, **small_config(family, seed))
    spec, config = read_as_counted(model, tmp_path), model.config
    assert (spec.family, spec.vocab_size, spec.d_model) == (family, config.vocab_size, config.hidden_size)
    assert spec.norm_eps == getattr(
        config, "rms_norm_eps", getattr(config, "layer_norm_eps", getattr(config, "norm_eps", 1e-5))
    )
    kinds = getattr(config, "layer_types", None) or [None] * config.num_hidden_layers
    window = getattr(config, "sliding_window", None)
    for kind, layer, block in zip(kinds, spec.layers, model.model.layers, strict=True):
        own, attention = layer.attention, block.self_attn
        assert own.head_dim == attention.head_dim
        assert own.heads // own.kv_heads == attention.num_key_value_groups
        assert own.scale == pytest.approx(attention.scaling, rel=1e-12)
        slides = kind in (None, "sliding_attention")
        if family == "smollm3":
            slides = attention.sliding_window is not None
        assert own.window == (window if slides else None)
        if own.rope is not None:
            rope = config.rope_parameters.get(kind, config.rope_parameters)
            assert own.rope.theta == rope["rope_theta"]
            assert own.rope.scaling == rope["rope_type"]
            assert own.rope.share == rope.get("partial_rotary_factor", 1.0)


@pytest.mark.parametrize("family", CHOICES)
def test_a_pass_caches_what_is_counted(family: str, tmp_path: Path) -> None:
    config = small_config(family, 0)
    if family == "ministral":  # theirs counts without a window, but doesn't run
        config["sliding_window"] = 16
    model = meta_model(family, device="cpu", **config)
    assert kv_bytes(read_as_counted(model, tmp_path), 3) == 2 * cached_elements(model, 3)


SMALL = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def read(model_type: str, **keys: Any) -> ModelSpec:
    return spec_from_config({**SMALL, "model_type": model_type, **keys}, "small", "config.json")


def rotated(spec: ModelSpec) -> list[bool]:
    return [layer.attention.rope is not None for layer in spec.layers]


def test_which_layers_are_not_rotated() -> None:
    """As their classes' forward has it: modeling_cohere2.py, modeling_exaone4.py, modeling_smollm3.py."""
    for family in ("cohere2", "exaone4", "smollm3"):
        assert rotated(read(family)) == [True, True, True, False]
    assert rotated(read("exaone4", sliding_window=None, sliding_window_pattern=None)) == [True] * 4
    assert rotated(read("smollm3", no_rope_layers=[0, 1, 1, 0])) == [False, True, True, False]
    assert rotated(read("granite_swa", layer_rope_theta=[1e4, 0, None, 5e5])) == [True, False, False, True]
    assert rotated(read("baichuan")) == [False] * 4
    assert rotated(read("baichuan", hidden_size=4096)) == [True] * 4


def test_gemma_scales_and_caps() -> None:
    spec = read("gemma2")
    assert (spec.logit_softcap, spec.layers[0].attention.softcap) == (30.0, 50.0)
    assert spec.embedding_scale == math.sqrt(64)
    assert [layer.attention.window for layer in spec.layers] == [4096, None, 4096, None]
    assert read("gemma", hidden_act="gelu").layers[0].mlp.activation == "gelu_tanh"


def test_ropes_that_a_class_assumes() -> None:
    theta = {"cohere": 5e5, "smollm3": 2e6, "helium": 1e5, "ernie4_5": 5e5, "exaone": 5e5, "olmo3": 5e5}
    for family, expected in theta.items():
        rope = read(family, **({"num_layers": 4} if family == "exaone" else {})).layers[0].attention.rope
        assert rope is not None and rope.theta == expected, family
    apertus = read("apertus").layers[0].attention.rope
    assert apertus is not None
    assert (apertus.theta, apertus.scaling, apertus.factor) == (12e6, "llama3", 8.0)
    legacy = {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    linear = read("apertus", **legacy).layers[0].attention.rope
    assert linear is not None and (linear.theta, linear.scaling) == (5e5, "linear")
    phi = read("phi3", rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]})
    assert phi.layers[0].attention.rope is not None
    assert phi.layers[0].attention.rope.scaling == "longrope"


def test_only_full_layers_of_olmo3_stretch_their_rope() -> None:
    spec = read("olmo3", rope_scaling={"rope_type": "yarn", "factor": 8.0})
    assert [layer.attention.rope.scaling for layer in spec.layers if layer.attention.rope] == [
        *("default",) * 3,
        "yarn",
    ]


def test_internlm2_by_its_published_total() -> None:
    """internlm/internlm2-7b: 7,737,708,544 parameters in its safetensors index (15,475,417,088 bytes)."""
    spec = read(
        "internlm2",
        vocab_size=92544,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        bias=False,
    )
    assert parameters(spec).total == 7_737_708_544


def test_qwen_by_its_published_total() -> None:
    """Qwen/Qwen-7B: 7,721,324,544 parameters on its model page; intermediate_size is gate's and up's."""
    spec = read(
        "qwen",
        vocab_size=151936,
        hidden_size=4096,
        intermediate_size=22016,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=None,
        kv_channels=128,
        seq_length=8192,
    )
    assert parameters(spec).total == 7_721_324_544
    assert spec.context_length == 8192


def test_baichuan_by_its_published_total() -> None:
    """baichuan-inc/Baichuan-7B: 7,000,559,616 parameters on its model page."""
    spec = read(
        "baichuan",
        vocab_size=64000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=None,
    )
    assert parameters(spec).total == 7_000_559_616


def block(attention: dict[str, Any], ffn: dict[str, Any]) -> dict[str, Any]:
    off = {"no_op": False, "replace_with_linear": False}
    return {"attention": {**off, **attention}, "ffn": {**off, **ffn}}


BLOCKS = [
    block({"n_heads_in_group": 2}, {"ffn_mult": 5.25}),
    block({"no_op": True}, {"ffn_mult": 1.0}),
    block({"replace_with_linear": True}, {"no_op": True}),
    block({"no_op": True}, {"no_op": True}),
]


def test_a_searched_network_by_hand() -> None:
    """d 64, 4 heads of 16 in groups of 2; widths 2/3·5.25·64 = 224 and 2/3·64 = 42, up to 256 both."""
    spec = read("nemotron-nas", block_configs=BLOCKS, num_key_value_heads=None, rms_norm_eps=1e-5)
    attention, mlp, norm = 2 * 64 * 64 + 2 * 32 * 64, 3 * 256 * 64, 64
    layers = (attention + mlp + 2 * norm) + (mlp + norm) + (64 * 64 + norm)
    assert parameters(spec).total == layers + norm + 2 * 100 * 64
    assert kv_bytes_per_token(spec) == 2 * 32 * 2


@pytest.mark.parametrize(
    ("model_type", "keys", "says"),
    [
        ("nemotron-nas", {}, "has no block_configs"),
        ("nemotron-nas", {"block_configs": BLOCKS[:3]}, "block_configs must hold an entry for each of 4"),
        ("nemotron-nas", {"block_configs": [1, 2, 3, 4]}, "block_configs[0] must be an object"),
        (
            "nemotron-nas",
            {"block_configs": [block({"n_heads_in_group": 3}, {"no_op": True})] * 4},
            "4 attention heads can't form groups of 3",
        ),
        ("nemotron-nas", {"block_configs": [block({}, {"no_op": True})] * 4}, "has no n_heads_in_group"),
        ("gemma2", {"use_bidirectional_attention": True}, "sets use_bidirectional_attention"),
        ("olmo3", {"layer_types": ["full_attention"]}, "layer_types must name 4 layers"),
        ("exaone4", {"sliding_window_pattern": "LLLG"}, "sliding_window_pattern is 'LLLG'"),
        ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers must hold an entry for each of 4 layers"),
        ("granite_swa", {"layer_rope_theta": ["x"] * 4}, "layer_rope_theta must hold numbers"),
        ("qwen", {"no_bias": False}, "no_bias is false"),
        ("phi3", {"hidden_size": None}, "config.json has no hidden_size"),
    ],
)
def test_what_is_wrong_is_named(model_type: str, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        read(model_type, **keys)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


OTHERS = ("mimo", "internlm2", "qwen", "baichuan", "nemotron-nas")


@given(st.sampled_from([*sorted(CHOICES), *OTHERS]), st.integers(0, 3), st.data())
def test_any_value_is_taken_or_refused_in_one_line(family: str, seed: int, data: st.DataObject) -> None:
    config = SMALL | {"block_configs": BLOCKS} if family in OTHERS else small_config(family, seed)
    keys = [*sorted(config), "rope_scaling", "layer_types", "no_rope_layers", "head_dim", "layer_rope_theta"]
    taken_or_refused(config | {"model_type": family}, data.draw(st.sampled_from(keys)), data.draw(ODD_VALUES))


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_published_configs_count_as_published() -> None:
    configs = Path(SHARED or "") / "data" / "configs"
    known = {**dense.READERS, **dense_sliding.READERS, **dense_remote.READERS}
    with (configs / "params.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["model_type"] in known and row["status"] == "ok"]
    for row in rows:
        own = parameters(read_hf_config(configs / f"{row['file']}.json"))
        assert own.total == int(row["total_params_text"]), row["file"]
        assert own.active == int(row["active_params_text_incl_embed_and_head"]), row["file"]
        assert own.active_without_embedding == int(row["active_excl_input_embedding"]), row["file"]
    assert len(rows) == 7


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_models_that_transformers_does_not_know() -> None:
    """Nemotron Super: 49,867,145,216 on its model page. MiMo-7B: by hand, without its draft layer."""
    configs = Path(SHARED or "") / "data" / "configs"
    nemotron = read_hf_config(configs / "nvidia--Llama-3_3-Nemotron-Super-49B-v1.json")
    assert parameters(nemotron).total == 49_867_145_216
    mimo = read_hf_config(configs / "XiaomiMiMo--MiMo-7B-Base.json")
    attention = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 4096 + 2 * 1024  # biases on queries, keys, values
    layer = attention + 3 * 11008 * 4096 + 2 * 4096
    assert parameters(mimo).total == 36 * layer + 2 * 151680 * 4096 + 4096
    assert mimo.draft_layers == 1
    assert kv_bytes_per_token(mimo) == 2 * 36 * 8 * 128 * 2


@pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")
def test_kv_cache_as_an_engine_logged_it() -> None:
    """Case FIT-03: gemma-7b in vLLM 0.19.0 takes 458,752 bytes a token: heads of 256, not 3072 / 16."""
    spec = read_hf_config(Path(SHARED or "") / "data" / "configs" / "google--gemma-7b.json")
    assert kv_bytes_per_token(spec) == 458_752
