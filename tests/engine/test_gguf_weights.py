"""Against what transformers makes of the same file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from converted_gguf import ARCHITECTURES, write_converted
from gguf import GGMLQuantizationType as Type
from tiny_gguf import sentencepiece_fields, shape_fields, write_gguf
from tiny_models import effective, made, values, values_of

from twophase.engine.default_model import default_model_path
from twophase.engine.gguf_weights import open_gguf
from twophase.engine.weights import open_weights
from twophase.errors import InputError
from twophase.model.catalogue import load_spec

DATA = Path(__file__).parents[1] / "data"
D, D_FF, HEADS, KV_HEADS, HEAD = 64, 96, 4, 2, 16
Q, KV = HEADS * HEAD, KV_HEADS * HEAD
QWEN3_HEAD = 128  # transformers reads no head size from Qwen 3's files
VOCABULARY = sentencepiece_fields(["▁", "a", "b", "ab"])


def layer(architecture: str) -> dict[str, tuple[int, ...]]:
    head = QWEN3_HEAD if architecture == "qwen3" else HEAD
    q, kv = HEADS * head, KV_HEADS * head
    shapes: dict[str, tuple[int, ...]] = {
        **{"attn_q": (q, D), "attn_k": (kv, D), "attn_v": (kv, D), "attn_output": (D, q)},
        **{"ffn_gate": (D_FF, D), "ffn_up": (D_FF, D), "ffn_down": (D, D_FF)},
        **{"attn_norm": (D,), "ffn_norm": (D,)},
    }
    if architecture == "qwen2":
        shapes |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if architecture in ("qwen3", "gemma3"):
        shapes |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
    if architecture == "gemma3":
        shapes |= {"post_attention_norm": (D,), "post_ffw_norm": (D,)}
    return shapes


def tensors(architecture: str) -> dict[str, np.ndarray]:
    random, vocabulary = np.random.default_rng(0), len(VOCABULARY["token_list"])
    shapes = {"token_embd": (vocabulary, D), "output_norm": (D,)}
    if architecture in ("llama", "qwen2"):
        shapes["output"] = (vocabulary, D)
    for i in range(2):
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer(architecture).items()}
    return {
        name if name.endswith("bias") else f"{name}.weight": random.normal(0, 0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def tiny(directory: Path, architecture: str, form: Type = Type.F32, **changed: np.ndarray | None) -> Path:
    content = {name: each for name, each in (tensors(architecture) | changed).items() if each is not None}
    formats = {name: form for name, each in content.items() if each.ndim == 2}
    more = {
        "gemma3": {"sliding_window": 32},
        "qwen3": {"key_length": QWEN3_HEAD, "value_length": QWEN3_HEAD},
    }.get(architecture, {})
    return write_gguf(
        directory / "tiny.gguf",
        architecture,
        tensors=content,
        formats=formats,
        **shape_fields(**more),
        **VOCABULARY,
    )


def reference(path: Path) -> dict[str, np.ndarray]:
    return effective(
        tf.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    )


@pytest.mark.parametrize(
    "form", [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1], ids=lambda f: f.name
)
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_every_tensor_is_transformers_own(architecture: str, form: Type, tmp_path: Path) -> None:
    """Llama's q and k among them, whose rows such files hold in another order."""
    path = tiny(tmp_path, architecture, form)
    source, truth = open_weights(path, load_spec(str(path))), reference(path)
    assert set(source.names) == set(truth)
    matrices = sum(each.ndim == 2 for each in truth.values())
    assert source.formats[form.name] == (len(truth) if form == Type.F32 else matrices)
    for name, theirs in truth.items():
        # Gemma's norms lose their last bits there and back: transformers stores their distance from one.
        tolerance = 2e-6 if name.endswith("norm") else 0
        np.testing.assert_allclose(
            values(source, name), theirs, rtol=5 * tolerance, atol=tolerance, err_msg=name
        )
    for name in ("embedding", "layers.1.q"):
        np.testing.assert_array_equal(source.tensor(name, slice(8, 29)), source.tensor(name)[8:29])


@pytest.mark.parametrize("form", [Type.F32, Type.BF16, Type.Q8_0], ids=lambda form: form.name)
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_every_family_as_llama_cpp_converts_it(family: str, form: Type, tmp_path: Path) -> None:
    model = made(family)
    path = write_converted(tmp_path / "tiny.gguf", model, form)
    source, truth = open_weights(path, load_spec(str(path))), effective(model)
    assert set(source.names) == set(truth)
    for name, theirs in truth.items():
        found = values(source, name)
        # Q8_0: half a step of 127, and the rounding of its float16 scale.
        tolerance = {"F32": 1e-5, "BF16": np.abs(theirs) / 256, "Q8_0": np.abs(theirs).max() / 225}[form.name]
        assert found.shape == theirs.shape, name
        assert (np.abs(found - theirs) <= tolerance + 1e-6).all(), name
        some = slice(len(theirs) // 3, len(theirs) - 1)
        np.testing.assert_array_equal(values_of(source.tensor(name, some)), found[some], err_msg=name)


@pytest.mark.parametrize("number", [1, 3])
def test_a_model_split_over_files(number: int, tmp_path: Path) -> None:
    """Whichever of them is named."""
    model = made("qwen3_moe")
    whole = write_converted(tmp_path / "whole.gguf", model, Type.Q8_0)
    write_converted(tmp_path / "tiny.gguf", model, Type.Q8_0, split_tensors=12)
    parts = sorted(tmp_path.glob("tiny-*.gguf"))
    assert len(parts) > 2
    one, many = (open_weights(each, load_spec(str(each))) for each in (whole, parts[number - 1]))
    assert many.names == one.names
    for name in one.names:
        np.testing.assert_array_equal(many.tensor(name), one.tensor(name), err_msg=name)

    spec, last = load_spec(str(whole)), parts[-1].read_bytes()
    parts[-1].write_bytes(last[:-40])
    with pytest.raises(InputError, match=f"{parts[-1].name} is cut off"):
        open_gguf(parts[0], spec)
    parts[-1].unlink()
    with pytest.raises(InputError, match=f"{parts[-1].name} does not exist"):
        open_gguf(parts[0], spec)


def test_gate_and_up_of_experts_in_one_tensor(tmp_path: Path) -> None:
    """As newer converters may write them."""
    model = made("qwen3_moe")
    apart = write_converted(tmp_path / "apart.gguf", model)
    fused = write_converted(tmp_path / "fused.gguf", model, fused_experts=True)
    one, other = (open_weights(each, load_spec(str(each))) for each in (apart, fused))
    for name in one.names:
        np.testing.assert_array_equal(one.tensor(name), other.tensor(name), err_msg=name)


def test_llamas_biases_of_q_and_k_are_reordered_as_their_rows(tmp_path: Path) -> None:
    """An element of the bias belongs to a row of the matrix: where both are marked, marks stay together."""
    marks = np.arange(Q, dtype=np.float32)
    changed = {f"blk.{i}.attn_{name}.bias": np.zeros(KV) for i in range(2) for name in "qkv"}
    changed |= {f"blk.{i}.attn_q.bias": marks for i in range(2)}
    changed |= {f"blk.{i}.attn_q.weight": np.repeat(marks[:, None], D, 1) for i in range(2)}
    path = tiny(tmp_path, "llama", **changed)
    source = open_weights(path, load_spec(str(path)))
    np.testing.assert_array_equal(source.tensor("layers.0.q_bias"), source.tensor("layers.0.q")[:, 0])
    assert source.tensor("layers.0.q_bias")[:HEAD].tolist() == [*range(0, HEAD, 2), *range(1, HEAD, 2)]


def refused(path: Path, spec: Path | None = None) -> str:
    described = load_spec(str(spec or path))
    with pytest.raises(InputError) as raised:
        open_weights(path, described)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_tensor_missing_or_misshapen_or_unknown(tmp_path: Path) -> None:
    assert "no tensor blk.1.ffn_up.weight" in refused(
        tiny(tmp_path, "qwen3", **{"blk.1.ffn_up.weight": None})
    )
    short = {"blk.1.ffn_up.weight": np.zeros((80, D))}
    assert "blk.1.ffn_up.weight is 80 × 64, but the model's is 96 × 64" in refused(
        tiny(tmp_path, "qwen3", **short)
    )
    more = {"blk.1.ffn_gate_exps.weight": np.zeros((D_FF, D))}
    assert "blk.1.ffn_gate_exps.weight" in refused(tiny(tmp_path, "qwen3", **more))


def test_a_type_that_cannot_be_dequantised(tmp_path: Path) -> None:
    path = tiny(tmp_path, "qwen3")
    name, content = b"blk.0.ffn_up.weight", path.read_bytes()
    at = content.index(name) + len(name) + 4 + 16  # behind its rank and two dimensions
    for type_id, said in [(int(Type.I32), "type I32"), (4, "type 4"), (999, "type 999")]:
        path.write_bytes(content[:at] + type_id.to_bytes(4, "little") + content[at + 4 :])
        message = refused(path)
        assert said in message
        assert "blk.0.ffn_up.weight" in message


def test_a_file_cut_off(tmp_path: Path) -> None:
    path = tiny(tmp_path, "qwen3")
    spec, content = load_spec(str(path)), path.read_bytes()
    for size in (0, 3, 20, 500, len(content) // 2, len(content) - 40):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=re.escape(str(path))):
            open_gguf(path, spec)


@pytest.mark.slow
def test_the_default_model_is_transformers_own() -> None:
    """Of each tensor its mean, its deviation, its first and its last value (tests/data/SOURCES.md)."""
    path = default_model_path()
    assert path is not None
    source = open_weights(path, load_spec(str(path)))
    truth = json.loads((DATA / "gemma_3_270m_tensors.json").read_text())
    assert set(source.names) == set(truth)
    assert source.formats == {"F32": 109, "Q5_0": 81, "Q4_K": 27, "Q8_0": 10, "Q6_K": 9}
    for name, theirs in truth.items():
        assert facts(values(source, name)) == pytest.approx(theirs, rel=1e-5, abs=1e-9), name


def facts(tensor: np.ndarray) -> list[float]:
    mean, deviation = tensor.mean(dtype=np.float64), tensor.std(dtype=np.float64)
    return [float(each) for each in (mean, deviation, tensor.flat[0], tensor.flat[-1])]
