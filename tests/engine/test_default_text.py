"""The default model speaks as transformers makes it speak, in float32, from the same GGUF file."""

import json
from pathlib import Path

import numpy as np
import pytest

from twophase.cost.pass_ import Pass, Span
from twophase.engine.default_model import default_model_path
from twophase.engine.generating import generate
from twophase.engine.open import OpenModel, find_model, load_model
from twophase.engine.tokenizer import load_tokenizer

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "gemma_reference.json").read_text())
CASES = REFERENCE["generation"]


@pytest.fixture(scope="module")
def model() -> OpenModel:
    return load_model(find_model(None, "real", "float32"))


@pytest.mark.slow
def test_greedy_tokens(model: OpenModel) -> None:
    """All prompts in one batch: who else is in it changes nothing."""
    prompts = [case["prompt_ids"] for case in CASES]
    outputs: list[list[int]] = [[] for _ in prompts]
    for step in generate(model, prompts, 48, 2):
        for sequence, tokens in step.tokens.items():
            outputs[sequence] += tokens
    assert outputs == [case["greedy_ids"] for case in CASES]


@pytest.mark.slow
def test_largest_logits(model: OpenModel) -> None:
    executor = model.executor(positions=32, sequences=1, threads=2)
    for case in CASES:
        ids = case["prompt_ids"]
        executor.begin(0, ids)
        logits = executor.logits(Pass((Span(0, len(ids), 0, (0, 1)),)))[0]
        executor.end(0)
        tokens, values = zip(*case["last_logits_top5"], strict=True)
        assert np.argsort(-logits)[:5].tolist() == list(tokens)
        np.testing.assert_allclose(logits[list(tokens)], values, atol=2e-3)


def test_text_of_the_reference() -> None:
    path = default_model_path()
    assert path is not None
    tokenizer = load_tokenizer(path)
    for case in CASES:
        assert tokenizer.encode(case["prompt"]) == case["prompt_ids"]
        assert "".join(tokenizer.stream(case["greedy_ids"], after=case["prompt_ids"])) == case["text"]
    for case in REFERENCE["tokenization"]:
        assert tokenizer.encode(case["text"]) == case["ids"]
