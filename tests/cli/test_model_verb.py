"""twophase model: the keys of its JSON with published values, its text, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TINY = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def answer(run, *arguments: str) -> dict[str, Any]:
    status, out, err = run("model", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_a_dense_model(run) -> None:
    """Llama-3.1-8B: 8,030,261,248 parameters on its page; KV of 2·32·8·128 in two bytes."""
    own = answer(run, "llama-3.1-8b", "--contexts", "1000,131072")
    assert own["parameters"] == {
        "embedding": 128256 * 4096,
        "attention": 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096),
        "recurrent": 0,
        "mlp": 32 * 3 * 14336 * 4096,
        "experts": 0,
        "norms": 65 * 4096,
        "head": 128256 * 4096,
        "total": 8_030_261_248,
        "active": 8_030_261_248,
        "active_without_embedding": 8_030_261_248 - 128256 * 4096,
        "vision": 0,
    }
    assert all(isinstance(count, int) for count in own["parameters"].values())
    assert own["weights_bytes"] == sum(own["weights_bytes_by_part"].values()) == 2 * 8_030_261_248
    assert own["kv_bytes_per_token"] == own["kv_bytes_per_token_unbounded"] == 131_072
    assert own["kv_bytes_at"] == {"1000": 131_072_000, "131072": 2**34}
    assert (own["state_bytes"], own["vision"], own["layers"]) == (0, None, 32)


def test_a_mixture_of_experts_as_published(run) -> None:
    """gpt-oss-120b's card: 116.83B in all, 5.13B active without the embedding, 60.8 GiB; windows of 128."""
    own = answer(run, "openai/gpt-oss-120b", "--contexts", "128,10128")
    assert own["parameters"]["total"] / 1e9 == pytest.approx(116.83, abs=0.005)
    assert own["parameters"]["active_without_embedding"] / 1e9 == pytest.approx(5.13, abs=0.005)
    assert own["weights_bytes"] / 2**30 == pytest.approx(60.8, abs=0.1)
    assert own["weights"] == "mxfp4"
    per_layer = 2 * 8 * 64 * 2
    assert own["kv_bytes_per_token"] == 36 * per_layer
    assert own["kv_bytes_per_token_unbounded"] == 18 * per_layer
    assert own["kv_bytes_at"] == {"128": 36 * 128 * per_layer, "10128": (18 * 128 + 18 * 10128) * per_layer}


def test_a_latent_cache_as_published(run) -> None:
    """DeepSeek-V3: 671B, 37B active; (512 + 64)·61 numbers a token, 70 KB in BF16 (arXiv 2505.09343)."""
    own = answer(run, "deepseek-v3")
    assert round(own["parameters"]["total"] / 1e9) == 671
    assert round(own["parameters"]["active_without_embedding"] / 1e9) == 37
    assert own["kv_bytes_per_token"] == 576 * 61 * 2 == 70_272
    assert (own["weights"], own["draft_layers"]) == ("fp8-block", 1)


def test_a_hybrid_keeps_a_state(run) -> None:
    """Qwen3-Next: 12 layers of 2 heads of 256; 36 states of 32·128·128 in float32, convolutions of 4."""
    own = answer(run, "qwen3-next-80b-a3b", "--contexts", "1")
    state = 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    assert own["state_bytes"] == state
    assert own["kv_bytes_per_token"] == 12 * 2 * 2 * 256 * 2
    assert own["kv_bytes_at"] == {"1": state + own["kv_bytes_per_token"]}
    assert own["parameters"]["recurrent"] > own["parameters"]["attention"] > 0


def test_vision_is_named_and_counted_apart(run) -> None:
    """Gemma 3 4B: 3.88B of text and 0.42B of vision make its 4.3B."""
    own = answer(run, "gemma-3-4b")
    assert own["parameters"]["total"] == 3_880_099_328
    assert own["parameters"]["vision"] == 419_816_304
    assert own["vision"] == "siglip_vision_model"


def test_formats_that_are_asked_for(run) -> None:
    own = answer(run, "llama-3.1-8b", "--weights", "fp8", "--kv", "fp8")
    kept = 2 * 128256 * 4096 + 65 * 4096  # embedding, head and norms stay in 16 bits
    blocks = 8_030_261_248 - kept
    assert own["weights_bytes"] == pytest.approx(blocks + 2 * kept, abs=32 * 7 * 8)
    assert (own["kv"], own["kv_bytes_per_token"]) == ("fp8", 65_536)


def test_contexts_by_default_end_with_the_longest(run) -> None:
    assert list(answer(run, "qwen3-8b")["kv_bytes_at"]) == ["2048", "8192", "32768", "40960"]


def test_the_text_says_the_same_with_units(run) -> None:
    status, out, err = run("model", "gpt-oss-120b", "--contexts", "8192")
    assert (status, err) == (0, "")
    rows = {line[:30].strip(): line[30:].split() for line in out.splitlines()}
    experts = 36 * 128 * 3 * 2880 * 2880  # MXFP4: 32 of them in 17 bytes; the others in 16 bits
    expected = experts * 17 / 32 + (116_829_156_672 - experts) * 2
    assert rows["total"] == ["116,829,156,672", f"{expected / 1e9:.3f}", "GB"]
    assert rows["active, of one token"] == ["5,711,982,912"]
    assert rows["without the embedding"] == ["5,132,849,472"]
    assert "36 layers, d_model 2,880, vocabulary 201,088, context 131,072 tokens" in out
    assert "73,728 bytes a token (72 KiB), 36,864 where the windows are full" in out
    assert "at       8,192 tokens    0.286 GiB a sequence" in out
    assert "128 experts of 2,880" in out and "window 128" in out


def test_a_tied_head_is_said_to_be(run) -> None:
    out = run("model", "qwen3-0.6b")[1]
    assert next(line for line in out.splitlines() if line.startswith("head")).split() == [
        "head",
        "155,582,464",
        "tied",
    ]
    assert "596,049,920" in out


def test_a_config_and_its_directory(run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    blocks = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64)
    for path in (tmp_path, tmp_path / "config.json"):
        own = answer(run, str(path))
        assert own["model"] == tmp_path.name
        assert own["parameters"]["total"] == blocks + 2 * 64 * 64 + 5 * 64
        assert own["matmul_parameters"] == blocks + 64 * 64
        assert list(own["kv_bytes_at"]) == ["128"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": "64"}, "hidden_size is '64'; it must be a whole number of at least 1"),
        ({"hidden_size": 1e30}, "hidden_size is 1e+30; it must be a whole number"),
        ({"hidden_size": True}, "hidden_size is True; it must be a whole number"),
        ({"hidden_size": -64}, "hidden_size is -64; it must be a whole number of at least 1"),
        ({"num_hidden_layers": 10**9}, "at most 10000"),
        ({"vocab_size": 10**12}, "at most 2147483647"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 3}, "4 attention heads can't share 3 key-value heads evenly"),
        ({"max_position_embeddings": 10**18}, "max_position_embeddings is 1"),
        ({"rope_scaling": {"rope_type": "x"}}, "rope type 'x' is not known; known are default, linear"),
        ({"rms_norm_eps": "x"}, "it must be a number above zero"),
        ({"tie_word_embeddings": "yes"}, "it must be true or false"),
        ({"model_type": None}, "has no model_type"),
        ({"model_type": "lama"}, "architecture 'lama' is not known here; did you mean llama"),
        ({"model_type": "\n\x1b[31m"}, "architecture '\\n\\x1b[31m' is not known here"),
        ({"model_type": ["llama"]}, "is not known here"),
        ({"torch_dtype": "int3"}, "the dtype 'int3' is not known"),
        (
            {"quantization_config": {"quant_method": "aqlm"}},
            "quant_method 'aqlm' is not known; known are fp8",
        ),
        ({"quantization_config": "fp8"}, "its quantization_config is str, not an object"),
    ],
)
def test_a_config_that_makes_no_sense_is_one_line(
    run, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**TINY, **changes}))
    status, out, err = run("model", path)
    assert (status, out) == (2, "")
    assert said in err and str(path) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON, or is cut off"),
        ("[]", "it holds no JSON object"),
        ("", "is not JSON"),
        ("\0", "is not JSON"),
    ],
)
def test_a_file_that_is_no_config_is_one_line(run, tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    status, out, err = run("model", path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no/such/config.json"], "no/such/config.json does not exist"),
        (["llama-3.1-9b"], "no model is called 'llama-3.1-9b'; did you mean llama-3.1-8b"),
        (["Qwen/Qwen3-9B"], "did you mean qwen3-"),
        (["/dev/null"], "is a device or a pipe, not a file"),
        (["no.gguf"], "no.gguf can't be read"),
        (["llama-3.1-8b", "--contexts", "0"], "--contexts"),
        (["llama-3.1-8b", "--contexts", "many"], "--contexts"),
        (["llama-3.1-8b", "--weights", "fp3"], "fp3"),
    ],
)
def test_what_is_not_there_is_one_line(run, arguments: list[str], said: str) -> None:
    status, out, err = run("model", *arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_an_empty_directory_is_one_line(run, tmp_path: Path) -> None:
    status, out, err = run("model", tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "config.json does not exist" in err


def test_heavy_imports_stay_out() -> None:
    code = (
        "import sys; sys.argv = ['twophase', 'model', 'deepseek-v3']\n"
        "import twophase.cli\n"
        "try: twophase.cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'torch', 'rich.table', 'pydantic', 'polars', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_mix_of_formats_is_said_to_be_an_average(run) -> None:
    status, out, err = run("model", "llama-3.1-8b", "--weights", "q4_k_m")
    assert status == 0 and "Q4_K_M" in out
    assert "Q4_K_M mixes formats" in err and "4.89 bits a weight" in err and err.count("\n") == 1
    assert run("model", "llama-3.1-8b", "--weights", "q4_k")[2] == ""
