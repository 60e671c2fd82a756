"""What an engine keeps beside weights and KV cache. Fitted to engines' logs: reserves.toml says which."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.model.spec import MLP, Layer, ModelSpec

Engine = Literal["vllm", "sglang", "trtllm", "plain"]
ENGINES: tuple[Engine, ...] = ("vllm", "sglang", "trtllm", "plain")

GIB = 2**30
LOGIT_BYTES, HIDDEN_BYTES = 4, 2


@dataclass(frozen=True, slots=True)
class Reserves:
    """The constants of one engine from one version on."""

    since: str
    sampler: float  # float32 logits of a full batch that lie in memory at once
    hidden: float  # 16-bit hidden states of a full pass beside them
    non_torch: dict[str, float]  # GiB: alone, tp, pp
    utilization: float
    source: str
    widest: dict[str, float]  # of a pass, 16-bit elements a token, in d_ff and d_model
    profiles_longest: bool = False
    groups_windows: bool = True
    log_divides: bool = False
    widest_group: float = 1.5
    state_blocks: tuple[int, int] = (1, 1)  # with prefix caching, without


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("reserves.toml").read_text(encoding="utf-8"))


def reserves_of(engine: Engine, version: str | None = None) -> Reserves:
    """Of a version such as 0.16.2; None: the newest known. InputError where it is no version."""
    entries = _table()[engine]
    wanted = version_numbers(version) if version is not None else (2**31,)
    known = [entry for entry in entries if version_numbers(entry["since"]) <= wanted]
    entry = {"sampler": 0.0, "hidden": 0.0, "pass": {}, **known[-1]}
    entry["widest"] = entry.pop("pass")
    if "state_blocks" in entry:
        with_caching, without = entry["state_blocks"]
        entry["state_blocks"] = (with_caching, without)
    return Reserves(**entry)


def newer_than(engine: Engine, version: str) -> str:
    """The first version with other constants than that one."""
    return next(
        str(entry["since"])
        for entry in _table()[engine]
        if version_numbers(entry["since"]) > version_numbers(version)
    )


def version_numbers(version: str) -> tuple[int, ...]:
    """0.10.1rc2 is (0, 10, 1)."""
    found = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})", version.strip())
    if found is None:
        raise InputError(f"--engine-version {version}: give a version such as 0.16 or 0.19.1")
    return tuple(map(int, found[1].split(".")))


def profiled(accelerator: Accelerator) -> tuple[int, int]:
    """(tokens of a pass, sequences of a batch) that vLLM assumes where it is told none."""
    own = _table()["profile"]
    large = accelerator.memory_bytes >= own["large_gib"] * GIB and "a100" not in accelerator.name.lower()
    sizes = own["large" if large else "small"]
    return sizes["tokens"], sizes["seqs"]


def non_torch_bytes(own: Reserves, plan: Plan) -> float:
    kind = "tp" if plan.tp * plan.dp > 1 else "pp" if plan.pp > 1 else "alone"
    return own.non_torch[kind] * GIB


def activation_bytes(
    own: Reserves, spec: ModelSpec, plan: Plan, tokens: int, sequences: int, has_head: bool
) -> float:
    """At the peak of the profiling run: of the pass itself, or of the sampler behind the head.

    The sampler sees all logits on every device: tensor parallelism does not divide them.
    """
    if not own.sampler:
        return 0.0
    feed_forward = max((_feed_forward_width(layer) for layer in set(spec.layers)), default=0) / plan.tp
    widest = own.widest["d_ff"] * feed_forward + own.widest["d_model"] * spec.d_model
    of_pass = tokens * HIDDEN_BYTES * widest
    if not has_head:
        return of_pass
    logits = min(sequences, tokens) * spec.vocab_size * LOGIT_BYTES
    return max(of_pass, own.sampler * logits + own.hidden * tokens * spec.d_model * HIDDEN_BYTES)


def _feed_forward_width(layer: Layer) -> int:
    """Elements of one token in all the experts that it goes through."""
    own = layer.feed_forward
    if own is None:
        return 0
    if isinstance(own, MLP):
        return own.d_ff
    return own.top_k * own.expert.d_ff + (own.shared.d_ff if own.shared else 0)
