"""The network's logits and greedy tokens against transformers on the same weights, family by family."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import families
import numpy as np
import pytest
import torch
from families import made, prompt_of, true_logits

from twophase.cost.pass_ import Pass, Span
from twophase.engine.batch import make_batch
from twophase.engine.feed_forward import MLPWeights, MoEWeights
from twophase.engine.kv import new_pool
from twophase.engine.loading import load_network, network_bytes
from twophase.engine.network import Compute, LayerWeights, Network, Norm, activation_bytes, forward
from twophase.engine.packer import Format
from twophase.engine.scratch import Scratch
from twophase.engine.weights import open_weights
from twophase.kernels.operands import GROUP
from twophase.kernels.packing import Panels
from twophase.kernels.quantising import quantise
from twophase.model.catalogue import load_spec

POSITIONS, BLOCKS = 128, 8  # of one sequence
FAMILIES = tuple(families.MODELS)


class Engine:
    """Passes on a loaded network; each sequence has blocks of its own, in no order."""

    def __init__(
        self, folder: Path, compute: Compute, sequences: int = 1, weights: Format | None = None
    ) -> None:
        spec = load_spec(str(folder))
        self.network = load_network(open_weights(folder, spec), spec, compute, weights=weights)
        self.pool = new_pool(spec, sequences * BLOCKS, compute, POSITIONS)
        self.blocks = np.random.default_rng(0).permutation(sequences * BLOCKS).reshape(sequences, BLOCKS)
        self.scratch = Scratch()

    def span(self, sequence: int, new: int, context: int, logit_rows: int = 1) -> Span:
        return Span(sequence, new, context, tuple(self.blocks[sequence].tolist()), logit_rows)

    def logits(self, tokens: dict[int, list[int]], *spans: Span, threads: int = 2) -> np.ndarray:
        batch = make_batch(Pass(spans), tokens)
        return forward(self.network, self.pool, batch, threads, self.scratch).copy()

    def in_pieces(self, ids: list[int], pieces: list[int]) -> np.ndarray:
        """Every row's logits, the pieces of the prompt run one after another."""
        starts = np.cumsum([0, *pieces]).tolist()
        parts = [
            self.logits({0: ids}, self.span(0, new, start, new))
            for new, start in zip(pieces, starts, strict=False)
        ]
        return np.concatenate(parts)

    def greedy(self, prompts: list[list[int]], tokens: int) -> list[list[int]]:
        """All at once: whole prompts, then a token each in every pass."""
        known = {i: list(ids) for i, ids in enumerate(prompts)}
        done = dict.fromkeys(known, 0)
        for _ in range(tokens):
            spans = [self.span(i, len(ids) - done[i], done[i]) for i, ids in known.items()]
            done = {i: len(ids) for i, ids in known.items()}
            for i, best in enumerate(np.argmax(self.logits(known, *spans), axis=1).tolist()):
                known[i].append(best)
        return [known[i][len(ids) :] for i, ids in enumerate(prompts)]


@cache
def model_of(kind: str) -> families.tf.PreTrainedModel:
    return made(kind, FAMILIES.index(kind))


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    kind = request.param
    folder = tmp_path_factory.mktemp("family")
    yield model_of(kind), families.saved(model_of(kind), folder)


def test_float32(checkpoint: tuple) -> None:
    """Logits of every row, whole and in chunks, and the same bits however the prompt was cut."""
    model, folder = checkpoint
    engine, ids = Engine(folder, "float32"), prompt_of(70, 0)
    whole = engine.in_pieces(ids, [70])
    np.testing.assert_allclose(whole, true_logits(model, ids), atol=1e-4)
    np.testing.assert_array_equal(engine.in_pieces(ids, [37, 1, 1, 20, 1, 10]), whole)


def test_greedy_tokens_in_float32(checkpoint: tuple) -> None:
    """Alone and in one batch, as transformers continues them."""
    model, folder = checkpoint
    prompts = [prompt_of(tokens, 1) for tokens in (40, 7, 23)]
    engine = Engine(folder, "float32", len(prompts))
    together = engine.greedy(prompts, 24)
    assert [engine.greedy([ids], 24)[0] for ids in prompts] == together
    for ids, tokens in zip(prompts, together, strict=True):
        best = np.argmax(true_logits(model, ids + tokens), axis=1)
        assert best[len(ids) - 1 : -1].tolist() == tokens


def test_bf16(checkpoint: tuple) -> None:
    """As near to float32 on the same weights as transformers' own bf16 is; the same bits in any company."""
    model, folder = checkpoint
    exact = {name: value.clone() for name, value in model.state_dict().items()}
    engine, ids, other = Engine(folder, "bf16", 2), prompt_of(60, 2), prompt_of(45, 3)
    mixture = any(isinstance(weights.feed_forward, MoEWeights) for weights in engine.network.layers)
    # Where two experts are all but equal, rounding may choose the other, theirs as often as ours, and all
    # rows behind it err more: so a mixture's rows are those of short prompts.
    prompts = [prompt_of(4, seed) for seed in range(30)] if mixture else [ids]
    ours = [engine.in_pieces(prompt, [len(prompt)]) for prompt in prompts]
    try:
        model.bfloat16()
        theirs = [true_logits(model, prompt) for prompt in prompts]
        model.float()
        truth = np.concatenate([true_logits(model, prompt) for prompt in prompts])
    finally:
        model.float().load_state_dict(exact)

    def error(logits: list[np.ndarray]) -> float:
        """Of the middle row."""
        return float(np.median(np.sqrt(np.mean((np.concatenate(logits) - truth) ** 2, axis=1))))

    assert error(ours) < 1.2 * error(theirs)
    alone = engine.in_pieces(ids, [60])
    known = {0: ids, 1: other}
    engine.logits(known, engine.span(1, 30, 0, 0), engine.span(0, 17, 0, 0))
    mixed = engine.logits(known, engine.span(0, 43, 17, 43), engine.span(1, 15, 30, 2), threads=1)
    np.testing.assert_array_equal(mixed[:43], alone[17:])


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen2_moe"])
def test_quantised_weights(kind: str, weights: Format, tmp_path: Path) -> None:
    """transformers with every matrix rounded, but routers and what is only looked up; int4's head in int8."""
    model, ids = made(kind, FAMILIES.index(kind)), prompt_of(60, 2)
    engine = Engine(families.saved(model, tmp_path), "float32", weights=weights)
    ours = engine.in_pieces(ids, [60])
    np.testing.assert_array_equal(engine.in_pieces(ids, [1, 40, 1, 18]), ours)
    tied = model.config.tie_word_embeddings
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            looked_up = "embed_tokens" in name and not tied
            if parameter.dim() > 1 and not looked_up and not name.endswith("gate.weight"):
                format = "int8" if "lm_head" in name or "embed_tokens" in name else weights
                parameter.copy_(torch.from_numpy(rounded(parameter.numpy(), format)))
    # Rows that meet integers are rounded to 16 bits, which moves logits by up to 5e-4 here.
    np.testing.assert_allclose(ours, true_logits(model, ids), atol=1e-3)


def rounded(matrix: np.ndarray, format: str) -> np.ndarray:
    q, scales = quantise(matrix.reshape(-1, matrix.shape[-1]), format)
    return (q * np.repeat(scales, GROUP[format], axis=1)[:, : q.shape[1]]).reshape(matrix.shape)


@pytest.mark.parametrize(
    ("weights", "bound"), [("int8", 0.04), ("int4", 0.5), ("int8-a8", 0.06), ("int4-a8", 0.5)]
)
def test_the_error_of_quantised_weights(weights: Format, bound: float, tmp_path: Path) -> None:
    """A share of the spread of logits, on random weights; real ones, of few large values, come out nearer."""
    model, ids = model_of("llama"), prompt_of(60, 2)
    truth = true_logits(model, ids)
    ours = Engine(families.saved(model, tmp_path), "float32", weights=weights).in_pieces(ids, [60])
    assert np.sqrt(np.mean((ours - truth) ** 2)) < bound * np.std(truth)


@pytest.mark.parametrize("weights", ["bf16", "float32", "int8", "int4", "int8-a8", "int4-a8"])
@pytest.mark.parametrize("kind", ["qwen2", "llama", "qwen2_moe"])
def test_the_arena_holds_every_matrix_and_nothing_else(kind: str, weights: Format, tmp_path: Path) -> None:
    network = Engine(families.saved(model_of(kind), tmp_path), "float32", weights=weights).network
    held = {id(array): array.nbytes for array in _panels(network)}
    assert sum(held.values()) == network.arena.nbytes == network_bytes(network.spec, "float32", weights)
    assert all(np.shares_memory(array, network.arena) for array in _panels(network) if array.size)


def _panels(found: object) -> Iterator[np.ndarray]:
    """Of everything within."""
    if isinstance(found, Panels):
        yield from (found.values, found.scales)
    elif isinstance(found, tuple) and not isinstance(found, Norm):
        for each in found:
            yield from _panels(each)
    elif isinstance(found, Network | LayerWeights | MLPWeights | MoEWeights):
        for each in fields(found):
            yield from _panels(getattr(found, each.name))


@pytest.mark.parametrize("kind", ["llama", "gemma3", "qwen2_moe"])
def test_scratch_is_no_more_than_was_said_and_stays(kind: str, tmp_path: Path) -> None:
    """Of a prompt beside some decodes; smaller passes after it take nothing more."""
    engine, ids = Engine(families.saved(model_of(kind), tmp_path), "float32", 3), prompt_of(90, 0)
    known, slack = dict.fromkeys(range(3), ids), 1 << 10  # where cache lines begin
    for i in range(2):
        engine.logits(known, engine.span(i, 40, 0))
    engine.logits(known, *(engine.span(i, 1, 40) for i in range(2)), engine.span(2, 80, 0, 4))
    most = engine.scratch.bytes
    assert 0.5 * activation_bytes(engine.network.spec, 82, 6) < most
    assert most < activation_bytes(engine.network.spec, 82, 6) + slack
    engine.logits(known, engine.span(2, 10, 80))
    assert engine.scratch.bytes == most
