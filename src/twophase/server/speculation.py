"""--speculate: who drafts, and how many tokens at a time."""

import re
from dataclasses import dataclass

from twophase.engine.drafting import Drafter, LookupDrafter, ModelDrafter
from twophase.engine.kv import new_pool, pool_bytes
from twophase.engine.memory import require_memory
from twophase.engine.open import OpenModel, find_model, load_model
from twophase.errors import InputError

MOST = 64  # drafts at a time; more never pays


@dataclass(frozen=True, slots=True)
class Speculation:
    most: int  # tokens of a draft
    model: str | None  # that drafts; None: lookup in the sequence's own text


def speculation_of(text: str) -> Speculation:
    """ngram:K or draft:MODEL:K. InputError where it is neither."""
    found = re.fullmatch(r"(?:ngram|draft:(.+)):([0-9]{1,3})", text)
    if found is None or not 1 <= int(found[2]) <= MOST:
        raise InputError(
            f"--speculate {text}: give ngram:K or draft:MODEL:K, with K drafts at a time from 1 to {MOST}"
        )
    return Speculation(int(found[2]), found[1])


def drafter_of(how: Speculation, model: OpenModel, blocks: int, positions: int, threads: int) -> Drafter:
    """InputError where the draft model can't be loaded, or has another vocabulary or too short a context."""
    if how.model is None:
        return LookupDrafter(how.most)
    found = find_model(how.model, None, model.network.compute)
    if found.spec.vocab_size != model.spec.vocab_size:
        raise InputError(
            f"--speculate draft:{how.model}: its vocabulary has {found.spec.vocab_size} tokens, that of "
            f"{model.spec.name} has {model.spec.vocab_size}; they must be the same"
        )
    if found.spec.context_length < positions:
        raise InputError(
            f"--speculate draft:{how.model}: its context window is {found.spec.context_length} tokens; "
            f"with it, --context-length must be at most that, not {positions}"
        )
    drafting = load_model(found)
    needed = pool_bytes(drafting.spec, blocks, drafting.network.compute)
    require_memory(f"the KV pool of {drafting.spec.name}, which drafts,", needed)
    pool = new_pool(drafting.spec, blocks, drafting.network.compute, positions)
    return ModelDrafter(drafting.network, pool, how.most, threads)
