"""The steady state of clients that each wait for an answer before they ask again, by fixed point.

C clients of prompts P and outputs O on replicas that each decode B sequences a pass. Between two tokens of a
sequence, B / O others begin: their prompts ride in its passes, or go first, so

    TPOT = decode pass + (B - 1) / O · what a prompt adds
    TTFT = frontend + its own prompt + prompts before it + passes to wait for, and for memory where it is full
    B    = clients · (time that a request decodes / its whole time), at most what memory holds

Prompts before it: clients that ask again when they are answered spread out by themselves, as each prompt
holds up those that would end next. What goes before is left of the burst with which a run begins, and, where
all requests are equally long, those that ended in the same pass.

All are arrays over deployments, so that a fit solves thousands at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.cost import pass_times as columns
from twophase.cost.pass_seconds import pair_factor

Floats = NDArray[np.float64]
ROUNDS = 24  # of the fixed point, each of which goes half of the way


class Passes(NamedTuple):
    rows_s: Callable[[Floats], Floats]  # of a pass of decodes alone
    mixed_s: Callable[[Floats], Floats]  # of one with a prompt's rows among them
    logits_s: Callable[[Floats], Floats]
    mixers: Floats  # [..., kinds, columns] of PassTimes


class Queueing(NamedTuple):
    """How an engine and its clients make requests wait."""

    front_s: Floats  # tokenizer, network and detokenizer of one request
    request_s: Floats  # frontend work that other clients' requests add, for each client
    burst: Floats  # of a replica's other clients, those whose prompts go before on average
    together: Floats  # prompts more that go before: of those that ended in the same pass
    waited: Floats  # passes until its first token is out: one in which its prompt rides, and more
    prompts: Floats  # what a prompt adds to serving, to what its kernels take


class Load(NamedTuple):
    prompt: Floats
    output: Floats
    clients: Floats  # of one replica that decodes
    prompters: Floats  # clients of one replica that computes prompts
    held: Floats  # sequences that its memory holds
    chunk: Floats  # rows of a prompt in one pass
    apart: Floats  # 1: prompts have pools of their own
    first: Floats  # 1: prompts go first, alone in their passes
    accepted: Floats  # tokens of a sequence a decode pass: 1 without drafts


class Solved(NamedTuple):
    ttft_s: Floats
    tpot_s: Floats
    batch: Floats  # sequences of a decode pass
    pass_s: Floats
    prompt_s: Floats
    memory_wait_s: Floats


def decode_s(own: Passes, batch: Floats, context: Floats) -> Floats:
    at = own.mixers
    window = at[..., columns.WINDOW]
    seen = np.where(window > 0, np.minimum(context[..., None], window), context[..., None])
    spans = at[..., columns.DECODE_SPAN_S] + seen * at[..., columns.DECODE_TOKEN_S]
    mixing = (at[..., columns.DECODE_PASS_S] + batch[..., None] * spans).sum(-1)
    return np.asarray(own.rows_s(batch) + own.logits_s(batch) + mixing)


def prompt_s(own: Passes, batch: Floats, tokens: Floats, chunk: Floats) -> Floats:
    """What a prompt adds to passes of so many decodes; with none, it is alone in its passes."""
    passes = np.ceil(tokens / chunk)
    rows, alone = tokens / passes, batch <= 0
    added = own.mixed_s(batch + rows) - np.where(alone, 0.0, own.rows_s(np.maximum(batch, 1.0)))
    at = own.mixers
    window, all_ = at[..., columns.WINDOW], tokens[..., None]
    seen = np.where(window > 0, np.minimum(window, all_), all_)
    pairs = all_ * seen - seen**2 / 2
    again = (tokens * (passes - 1) / 2)[..., None]  # of its context, read by later chunks
    each = at[..., columns.PROMPT_PASS_S] + at[..., columns.PROMPT_SPAN_S]
    longer = pair_factor(at[..., columns.PROMPT_FULL_ROWS], at[..., columns.PROMPT_STEP], rows[..., None])
    mixing = pairs * longer * at[..., columns.PROMPT_PAIR_S] + again * at[..., columns.PROMPT_TOKEN_S]
    mixing = mixing + passes[..., None] * each
    return np.asarray(passes * np.maximum(added, 0.0) + mixing.sum(-1) + own.logits_s(np.ones_like(tokens)))


def solve(decoding: Passes, prompting: Passes, load: Load, queueing: Queueing) -> Solved:
    """decoding and prompting are the same where prompts have no pools of their own."""
    clients = np.maximum(load.clients, 1.0)
    batch = np.minimum(clients, load.held)
    for _ in range(ROUNDS):
        found, resident = once(decoding, prompting, load, queueing, batch)
        batch = np.maximum((batch + resident) / 2, np.minimum(clients, 1.0))
    return found._replace(batch=batch)


def once(
    decoding: Passes, prompting: Passes, load: Load, queueing: Queueing, batch: Floats
) -> tuple[Solved, Floats]:
    """(what so many sequences a pass come to, the sequences that would then be in it)."""
    clients, context = np.maximum(load.clients, 1.0), load.prompt + load.output / 2
    apart, decodes = load.apart > 0, np.maximum(load.output - 1, 1.0)
    others = np.maximum(load.prompters - 1, 0.0)
    others = np.where(apart, others, np.minimum(others, load.held))
    alone = prompt_s(prompting, np.zeros_like(clients), load.prompt, load.chunk)
    in_crowd = queueing.prompts * (alone - shared_s(prompting, load, others))
    a_pass = decode_s(decoding, batch, context)
    beside = prompt_s(decoding, batch, load.prompt, load.chunk)
    prompt = np.where(apart | (load.first > 0), alone, beside) * queueing.prompts
    # in a turn each other client sends one prompt: before one's own, or while one decodes
    riding = np.minimum(np.maximum(batch - 1, 0.0), (1 - queueing.burst) * others)
    tpot = a_pass / load.accepted + np.where(apart, 0.0, riding / decodes * prompt)
    full = np.maximum(clients - load.held, 0.0) / load.held * decodes * tpot
    waits = np.minimum(queueing.burst * others + queueing.together, others)
    ttft = queueing.front_s + queueing.request_s * load.clients + prompt + waits * in_crowd
    ttft = ttft + queueing.waited * a_pass + full
    resident = np.minimum(clients * decodes * tpot / (decodes * tpot + ttft - full), load.held)
    return Solved(ttft, tpot, batch, a_pass, prompt, full), resident


def shared_s(own: Passes, load: Load, others: Floats) -> Floats:
    """What a prompt saves where as many as fit share its passes."""
    passes = np.ceil(load.prompt / load.chunk)
    rows, sharing = load.prompt / passes, np.clip(np.floor(load.chunk / load.prompt), 1, others + 1)
    return np.asarray(passes * (own.mixed_s(rows) - own.mixed_s(sharing * rows) / sharing))
