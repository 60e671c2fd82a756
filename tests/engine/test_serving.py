"""A sequence's tokens and probabilities are its own, bit for bit, whatever happens around it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from families import made

from twophase.cost.pass_ import Pass
from twophase.engine.drafting import Drafter, LookupDrafter, ModelDrafter
from twophase.engine.executor import Executor
from twophase.engine.kv import KVFormat, new_pool
from twophase.engine.network import Compute
from twophase.engine.open import OpenModel, find_model, load_model
from twophase.engine.packer import Format
from twophase.engine.sampling import Sampling, TokenLogprobs
from twophase.records import RequestRecord
from twophase.scheduler.clock import VirtualClock
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.policy import POLICIES
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler

POSITIONS, OUTPUT = 160, 24
VOCABULARY = 499
MODELS = (
    ("qwen3", "bf16", None),
    ("gemma3", "float32", None),
    ("qwen3_moe", "bf16", None),
    ("qwen3_moe", "bf16", "int8-a8"),
    ("qwen3", "bf16", "int4-a8"),
)
Answer = tuple[list[int], list[TokenLogprobs]]
Alone = tuple[OpenModel, dict[int, Answer]]


@dataclass(frozen=True)
class Wanted:
    prompt: list[int]
    sampling: Sampling
    arrival: float
    priority: int


@dataclass(frozen=True)
class Steady:
    """Every pass takes a second, so that who meets whom does not hang on the machine."""

    executor: Executor

    def run(self, pass_: Pass) -> PassOutcome:
        return replace(self.executor.run(pass_), seconds=1.0)


def asked() -> list[Wanted]:
    """Prompts that share beginnings, repeat themselves, and are greedy or drawn."""
    rng = np.random.default_rng(5)
    shared = rng.integers(0, VOCABULARY, 70).tolist()
    requests = []
    for i in range(10):
        own = rng.integers(0, VOCABULARY, int(rng.integers(3, 40))).tolist()
        prompt = [*shared[: int(rng.integers(0, 70))], *own, *own[: len(own) // 2]]
        sampling = Sampling(
            temperature=0.0 if i % 2 else 0.8,
            top_p=0.95,
            seed=i,
            logprobs=2,
            repetition_penalty=1.2 if i % 3 == 0 else 1.0,
            # a few words again and again, so that a lookup finds some
            logit_bias=dict.fromkeys((11, 12, 13), 9.0) if i in (5, 8) else {},
        )
        requests.append(Wanted(prompt, sampling, float(i // 3 * 2), i % 3))
    return requests


def served(
    model: OpenModel,
    requests: Mapping[int, Wanted],
    limits: Limits,
    policy: str = "decode-first",
    drafter: Drafter | None = None,
    kv: KVFormat | None = None,
) -> tuple[dict[int, Answer], list[RequestRecord]]:
    pool = new_pool(model.spec, limits.blocks, kv or model.network.compute, POSITIONS)
    executor = Executor(model.network, pool, 2, drafter)
    for key, each in requests.items():
        executor.begin(key, each.prompt, each.sampling)
    arrivals = [
        (
            each.arrival,
            Request(key, len(each.prompt), OUTPUT, each.priority, executor.prompt_keys(key)),
        )
        for key, each in sorted(requests.items(), key=lambda item: item[1].arrival)
    ]
    scheduler, log = Scheduler(limits, policy), Log(lambda pass_: (0.0, 0.0))
    outputs: dict[int, list[int]] = {key: [] for key in requests}
    for step in drive(arrivals, scheduler, Steady(executor), VirtualClock(), log):
        for key, tokens in step.tokens.items():
            outputs[key] += tokens
    assert scheduler.used_blocks == 0
    return {key: (outputs[key], list(executor.logprobs(key))) for key in requests}, log.requests


@pytest.fixture(scope="module", params=MODELS, ids=lambda own: " ".join(filter(None, own)))
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The model, and what each request is answered when nobody else is there."""
    kind, compute, weights = request.param
    model = opened(kind, 3, tmp_path_factory.mktemp("model"), compute, weights)
    limits = Limits(blocks=16, context_length=POSITIONS, prefix_cache=False)
    answers = {}
    for key, each in enumerate(asked()):
        answers |= served(model, {key: each}, limits)[0]
    return model, answers


ROOMY = Limits(blocks=200, context_length=POSITIONS, max_tokens=POSITIONS)
TIGHT = Limits(blocks=14, context_length=POSITIONS, max_tokens=24)


def opened(kind: str, seed: int, folder: Path, compute: Compute, weights: Format | None = None) -> OpenModel:
    made(kind, seed).save_pretrained(folder)
    return load_model(find_model(str(folder), "real", compute, weights))


def everybody() -> dict[int, Wanted]:
    return dict(enumerate(asked()))


def drafted(records: list[RequestRecord]) -> tuple[int, int]:
    return sum(each.drafted_tokens for each in records), sum(each.accepted_tokens for each in records)


def test_in_one_batch(alone: Alone) -> None:
    model, answers = alone
    assert served(model, everybody(), replace(ROOMY, prefix_cache=False))[0] == answers


@pytest.mark.parametrize("policy", POLICIES)
def test_chunked_preempted_and_found_in_the_cache(alone: Alone, policy: str) -> None:
    model, answers = alone
    for limits in (TIGHT, replace(TIGHT, prefix_cache=False), replace(ROOMY, max_tokens=7)):
        found, records = served(model, everybody(), limits, policy)
        assert found == answers
        spared = policy in ("static", "sglang")  # they admit nobody whose output may not find room
        assert limits.blocks > TIGHT.blocks or spared or any(each.preemptions for each in records)
        if limits.prefix_cache:
            assert any(each.cached_tokens for each in records)


def test_a_second_turn_finds_the_first(alone: Alone) -> None:
    """The conversation so far, answer included, is found in the cache but for its last, unfinished block."""
    model, answers = alone
    first = asked()[1]
    turn = [*first.prompt, *answers[1][0], 7, 8, 9]
    later = Wanted(turn, Sampling(logprobs=2), 100.0, 0)
    (fresh,) = served(model, {1: later}, replace(ROOMY, prefix_cache=False))[0].values()
    found, records = served(model, {0: first, 1: later}, ROOMY)
    assert found[1] == fresh
    assert records[1].cached_tokens == (len(first.prompt) + OUTPUT - 1) // 16 * 16


def test_with_drafts_looked_up(alone: Alone) -> None:
    model, answers = alone
    for limits in (ROOMY, TIGHT):
        found, records = served(model, everybody(), limits, drafter=LookupDrafter(4))
        assert found == answers
        assert drafted(records)[0] > 0


@pytest.mark.parametrize("same", [True, False], ids=["the model itself", "another model"])
def test_with_drafts_of_a_model(alone: Alone, same: bool, tmp_path: Path) -> None:
    model, answers = alone
    compute = model.network.compute
    small = model if same else opened("qwen3", 9, tmp_path, compute)
    for limits in (ROOMY, TIGHT):
        pool = new_pool(small.spec, limits.blocks, compute, POSITIONS)
        drafter = ModelDrafter(small.network, pool, 3, 2)
        found, records = served(model, everybody(), limits, drafter=drafter)
        assert found == answers
        assert drafted(records)[0] > 0
        if same and limits is ROOMY:  # plainly greedy ones all hold
            greedy = [each for each in records if each.request in (1, 7)]
            assert drafted(greedy)[0] == drafted(greedy)[1] > 0


def test_with_a_cache_in_int8(alone: Alone) -> None:
    """Another cache, other numbers; but again the same for everyone."""
    model, _ = alone
    answers: dict[int, Answer] = {}
    for key, each in everybody().items():
        answers |= served(model, {key: each}, replace(ROOMY, prefix_cache=False), kv="int8")[0]
    found, _ = served(model, everybody(), TIGHT, drafter=LookupDrafter(4), kv="int8")
    assert found == answers
