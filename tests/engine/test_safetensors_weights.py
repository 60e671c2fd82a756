"""Against the state of transformers' own models, saved by transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from tiny_models import MODELS, effective, made, values

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
        np.testing.assert_allclose(values(source, name), theirs, rtol=tolerance, err_msg=name)
    whole = values(source, "embedding")
    np.testing.assert_array_equal(source.tensor("embedding", slice(7, 31)), source.tensor("embedding")[7:31])
    assert whole.shape == (96, 64)


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


def save(directory: Path, model: tf.PreTrainedModel, state: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

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
