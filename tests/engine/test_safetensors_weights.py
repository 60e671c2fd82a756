"""Against the state of transformers' own models, saved by transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from tiny_models import MIXTURES, MODELS, effective, made, values

from twophase.engine.tensors import expected_shapes
from twophase.engine.weights import open_weights
from twophase.errors import InputError
from twophase.model.catalogue import load_spec


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", MODELS)
def test_every_tensor_is_transformers_own(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = made(family, dtype)
    model.save_pretrained(tmp_path)
    source = open_weights(tmp_path, load_spec(str(tmp_path)))
    truth = effective(model.float())
    assert source.kind == "real"
    assert set(source.names) == set(truth)
    for name, theirs in truth.items():
        # The multiplier comes out of a norm over ones with its epsilon; all else is exact.
        tolerance = 1e-5 if name.endswith("norm") else 0
        np.testing.assert_allclose(
            values(source, name), theirs, rtol=tolerance, atol=tolerance / 10, err_msg=name
        )
    for name in source.names:
        whole = source.tensor(name)
        assert whole.shape == source.stored[name].shape
        some = slice(len(whole) // 3, len(whole) - 1)
        np.testing.assert_array_equal(source.tensor(name, some), whole[some], err_msg=name)


def test_shards(tmp_path: Path) -> None:
    model = made("qwen3")
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    source = open_weights(tmp_path, load_spec(str(tmp_path)))
    np.testing.assert_array_equal(
        source.tensor("layers.1.down"), model.model.layers[1].mlp.down_proj.weight.detach()
    )
    assert source.formats == {"F32": len(source.names)}

    missing = sorted(tmp_path.glob("model-*.safetensors"))[1]
    missing.unlink()
    with pytest.raises(InputError, match=missing.name):
        open_weights(tmp_path, load_spec(str(tmp_path)))


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model.", "language_model.", ""])
def test_names_with_every_prefix_that_is_seen(prefix: str, tmp_path: Path) -> None:
    model = made("llama")
    state = {
        (name if name == "lm_head.weight" else prefix + name.removeprefix("model.")): tensor
        for name, tensor in model.state_dict().items()
    }
    save(tmp_path, model, state)
    source = open_weights(tmp_path, load_spec(str(tmp_path)))
    np.testing.assert_array_equal(
        source.tensor("layers.1.q"), state[f"{prefix}layers.1.self_attn.q_proj.weight"]
    )
    np.testing.assert_array_equal(source.tensor("head"), state["lm_head.weight"])


@pytest.mark.parametrize("family", MIXTURES)
def test_experts_as_transformers_holds_them_in_memory(family: str, tmp_path: Path) -> None:
    """All in one tensor; what it saves by itself is one tensor for each, as was first published."""
    model = made(family)
    model.save_pretrained(tmp_path / "whole", save_original_format=False)
    model.save_pretrained(tmp_path / "apart")
    whole, apart = (
        open_weights(each, load_spec(str(each))) for each in (tmp_path / "whole", tmp_path / "apart")
    )
    assert set(whole.names) == set(apart.names)
    for name in whole.names:
        np.testing.assert_array_equal(whole.tensor(name), apart.tensor(name), err_msg=name)
    held = model.model.layers[0].get_submodule(
        "mlp" if hasattr(model.model.layers[0], "mlp") else "block_sparse_moe"
    )
    np.testing.assert_array_equal(
        whole.tensor("layers.0.experts.down", slice(3, 5)), held.experts.down_proj[3:5].detach()
    )


@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_gpt2_with_and_without_prefix_and_its_masks(prefix: str, tmp_path: Path) -> None:
    """As OpenAI's own checkpoints at Hugging Face: "h.0.attn.bias" is the causal mask."""
    model = made("gpt2")
    state = {
        prefix + name.removeprefix("transformer."): tensor
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    state |= {f"{prefix}h.{i}.attn.bias": torch.ones(1, 1, 80, 80).tril() for i in range(2)}
    state |= {f"{prefix}h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    save(tmp_path, model, state)
    source = open_weights(tmp_path, load_spec(str(tmp_path)))
    assert source.names == tuple(expected_shapes(load_spec(str(tmp_path))))
    np.testing.assert_array_equal(source.tensor("positions"), model.transformer.wpe.weight.detach())
    fused = model.transformer.h[1].attn.c_attn.weight.detach().numpy()
    np.testing.assert_array_equal(source.tensor("layers.1.v"), fused[:, 128:].T)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama", "q"),
        ("phi3", "k"),
        ("phi3", "up"),
        ("gpt2", "v"),
        ("gpt2", "down"),
        ("granitemoe", "experts.up"),
    ],
)
def test_what_lies_in_the_file_in_bf16_is_not_copied(family: str, name: str, tmp_path: Path) -> None:
    made(family, torch.bfloat16).save_pretrained(tmp_path)
    tensor = open_weights(tmp_path, load_spec(str(tmp_path))).tensor(f"layers.1.{name}", slice(1, 5))
    assert not tensor.flags.owndata
    assert not tensor.flags.writeable


def save(directory: Path, model: tf.PreTrainedModel, state: dict[str, torch.Tensor]) -> None:
    model.config.save_pretrained(directory)
    save_file(
        {name: tensor.contiguous().clone() for name, tensor in state.items()}, directory / "model.safetensors"
    )


def refused(directory: Path) -> str:
    with pytest.raises(InputError) as raised:
        open_weights(directory, load_spec(str(directory)))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_tensor_missing_misshapen_unknown_or_of_another_type(tmp_path: Path) -> None:
    model, q = made("qwen3"), "model.layers.1.self_attn.q_proj.weight"
    state = model.state_dict()
    save(tmp_path, model, {name: tensor for name, tensor in state.items() if name != q})
    assert f"no tensor {q}" in refused(tmp_path)
    save(tmp_path, model, {**state, q: state[q][:48]})
    assert f"{q} is 48 × 64, but the model's is 64 × 64" in refused(tmp_path)
    save(tmp_path, model, {**state, q: state[q].to(torch.float8_e4m3fn)})
    assert f"{q} is of type F8_E4M3" in refused(tmp_path)
    bias = q.replace("weight", "bias")
    save(tmp_path, model, {**state, bias: torch.zeros(64)})
    assert bias in refused(tmp_path)


@pytest.mark.parametrize(
    ("leaf", "dtype", "method"),
    [
        ("qweight", torch.int32, "GPTQ or AWQ"),
        ("weight_scale_inv", torch.float32, "FP8"),
        ("weight_packed", torch.int32, "compressed-tensors"),
    ],
)
def test_quantised_safetensors_are_named(leaf: str, dtype: torch.dtype, method: str, tmp_path: Path) -> None:
    model, q = made("qwen3"), "model.layers.1.self_attn.q_proj."
    save(tmp_path, model, {**model.state_dict(), q + leaf: torch.zeros(8, 8).to(dtype)})
    message = refused(tmp_path)
    assert method in message
    assert q + leaf in message


def test_a_family_whose_names_are_not_known(tmp_path: Path) -> None:
    config = tf.GPTNeoConfig(
        vocab_size=96, hidden_size=64, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
    )
    model = tf.GPTNeoForCausalLM(config)
    save(tmp_path, model, model.state_dict())
    assert "no tensor model.embed_tokens.weight, which this gpt_neo model needs" in refused(tmp_path)
    save(tmp_path, model, {"model.embed_tokens.weight": model.transformer.wte.weight})
    assert "what a gpt_neo checkpoint calls its positions is not known" in refused(tmp_path)


def test_experts_that_are_missing_or_differ_in_type(tmp_path: Path) -> None:
    made("mixtral").save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    model, w3 = made("mixtral"), "model.layers.1.block_sparse_moe.experts.4.w3.weight"
    save(tmp_path, model, {name: tensor for name, tensor in state.items() if name != w3})
    assert f"no tensor {w3}" in refused(tmp_path)
    save(tmp_path, model, {**state, w3: state[w3].half()})
    assert "differ in type" in refused(tmp_path)
    save(tmp_path, model, {**state, w3.replace("4", "6"): state[w3]})
    assert w3.replace("4", "6") in refused(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_a_file_cut_off(share: float, tmp_path: Path) -> None:
    made("qwen3").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "model.safetensors" in refused(tmp_path)
    assert "cut off" in refused(tmp_path)


def test_no_weights_or_a_damaged_file(tmp_path: Path) -> None:
    made("qwen3").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes((4).to_bytes(8, "little") + b"nope")
    assert "damaged" in refused(tmp_path)
    path.write_bytes((len(header := b'{"x": {"dtype": "F32"}}')).to_bytes(8, "little") + header)
    assert "damaged" in refused(tmp_path)
    header = b'{"model.embed_tokens.weight": {"dtype": "F32", "shape": [96, 64], "data_offsets": [0, 8]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert "not those of its shape" in refused(tmp_path)
    path.unlink()
    assert "model.safetensors.index.json" in refused(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weights": {}}))
    assert "weight_map" in refused(tmp_path)
