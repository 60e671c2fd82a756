"""The engine's logits and greedy text against transformers on the same weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf

from twophase.cost.pass_ import Pass, Span
from twophase.engine.executor import Executor
from twophase.engine.generating import generate
from twophase.engine.network import Compute
from twophase.engine.open import OpenModel, find_model, load_model

VOCABULARY = 1000
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SHAPE)),
    "llama with biases, rope stretched": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3)
    ),
    "mistral, sliding": lambda: tf.MistralForCausalLM(tf.MistralConfig(**SHAPE, sliding_window=20)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**SHAPE, tie_word_embeddings=True)),
    # heads times head_dim is not d_model
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**SHAPE, head_dim=32)),
    # nothing is a multiple of 16
    "qwen3, odd": lambda: tf.Qwen3ForCausalLM(
        tf.Qwen3Config(**SHAPE | {"vocab_size": 999, "hidden_size": 60, "intermediate_size": 90}, head_dim=20)
    ),
    "gemma3": lambda: tf.Gemma3ForCausalLM(
        tf.Gemma3TextConfig(**SHAPE | {"num_hidden_layers": 7}, head_dim=32, sliding_window=24)
    ),
}


def made(kind: str, seed: int) -> tf.PreTrainedModel:
    """Random weights that keep activations near one, so that every layer matters."""
    torch.manual_seed(seed)
    model = MODELS[kind]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
            else:
                parameter.normal_(mean=0.0 if "gemma" in kind or "bias" in name else 1.0, std=0.2)
    return model


def opened(model: tf.PreTrainedModel, folder: Path, compute: Compute) -> OpenModel:
    model.save_pretrained(folder)
    return load_model(find_model(str(folder), "real", compute))


def prompt_of(tokens: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY - 1, tokens).tolist()


def true_logits(model: tf.PreTrainedModel, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def engine_logits(executor: Executor, ids: list[int], pieces: list[int]) -> np.ndarray:
    """Logits after each piece of the prompt, the pieces run one after another."""
    executor.begin(0, ids)
    blocks = tuple(range(1, executor.pool.blocks))
    ends = np.cumsum(pieces).tolist()
    spans = [Span(0, new, end - new, blocks) for new, end in zip(pieces, ends, strict=True)]
    logits = np.concatenate([executor.logits(Pass((span,))) for span in spans])
    executor.end(0)
    return logits


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", MODELS)
def test_logits_in_float32(kind: str, seed: int, tmp_path: Path) -> None:
    model = made(kind, seed)
    ids = prompt_of(100, seed)
    truth = true_logits(model, ids)
    executor = opened(model, tmp_path, "float32").executor(positions=128, sequences=1, threads=2)

    whole = engine_logits(executor, ids, [100])
    np.testing.assert_allclose(whole[0], truth[99], atol=5e-5)
    chunks = [37, 50] + [1] * 13
    pieces = engine_logits(executor, ids, chunks)
    np.testing.assert_allclose(pieces, truth[np.cumsum(chunks) - 1], atol=5e-5)
    np.testing.assert_array_equal(pieces[-1], whole[0])  # the same bits, however the prompt was cut


@pytest.mark.parametrize("kind", MODELS)
def test_logits_in_bf16_are_as_near_as_transformers_own(kind: str, tmp_path: Path) -> None:
    model = made(kind, 0).bfloat16()
    ids = prompt_of(100, 0)
    theirs = true_logits(model, ids)
    truth = true_logits(model.float(), ids)
    executor = opened(model.bfloat16(), tmp_path, "bf16").executor(positions=128, sequences=1, threads=2)
    ours = engine_logits(executor, ids, [1] * 100)

    def error(logits: np.ndarray) -> float:
        return float(np.sqrt(np.mean((logits - truth) ** 2)))

    assert error(ours) < 1.5 * error(theirs)
    np.testing.assert_array_equal(ours[-1], engine_logits(executor, ids, [64, 36])[-1])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", MODELS)
def test_greedy_text_in_float32(kind: str, seed: int, tmp_path: Path) -> None:
    """64 tokens each, alone and in one batch."""
    model = made(kind, seed)
    prompts = [prompt_of(tokens, seed) for tokens in (40, 7, 23)]
    model.generation_config.eos_token_id = None  # nothing ends before its 64 tokens
    settings = {"do_sample": False, "max_new_tokens": 64, "pad_token_id": 0}
    truth = [
        model.generate(torch.tensor([ids]), **settings)[0, len(ids) :].tolist() for ids in prompts
    ]  # fmt: skip
    engine = opened(model, tmp_path, "float32")
    assert continued(engine, prompts) == truth
    assert [continued(engine, [ids])[0] for ids in prompts] == truth


def continued(engine: OpenModel, prompts: list[list[int]]) -> list[list[int]]:
    outputs: list[list[int]] = [[] for _ in prompts]
    for step in generate(engine, prompts, 64, 2, ()):
        for sequence, tokens in step.tokens.items():
            outputs[sequence] += tokens
    return outputs
