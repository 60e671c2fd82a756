"""Find a server out: its model, its endpoint, the parameters it takes, what a word costs there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from time import monotonic

from twophase.errors import InputError, nearest
from twophase.meter import calibration as calibrating
from twophase.meter import dialect as speaking
from twophase.meter.calibration import Calibration, calibrate
from twophase.meter.compression import body_of
from twophase.meter.dialect import OPTIONAL, Dialect, without_named
from twophase.meter.exchange import Pool, exchange, fetch
from twophase.meter.outcome import refusal
from twophase.meter.proxy import split_url
from twophase.meter.reading import read_reply
from twophase.meter.records import Call, Endpoint, Exchange, Reply, Target
from twophase.meter.server_kind import kind_of, listed_models, longest_of
from twophase.meter.words import random_words, unique_text

PROBE_TOKENS = 2
SHORT_WORDS, LONG_WORDS = 16, 272
ENDINGS = ("/chat/completions", "/completions", "/models", "/v1", "/")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says of a server."""

    url: str
    model: str | None = None
    endpoint: Endpoint | None = None
    headers: tuple[tuple[str, str], ...] = ()
    verify_tls: bool = True
    timeout_s: float = 600.0
    extra: tuple[tuple[str, str], ...] = ()  # fields of every request, their values as JSON


@dataclass(frozen=True, slots=True)
class Server:
    """What was found out."""

    target: Target
    dialect: Dialect
    calibration: Calibration
    longest: int | None  # sequence in tokens, where it says
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def base_url(url: str) -> str:
    """A server's URL without what the API adds to it; InputError where it is none."""
    full = url if "://" in url else f"http://{url}"
    split_url(full)
    full = full.split("?")[0].split("#")[0]
    while ending := next((each for each in ENDINGS if full.endswith(each)), ""):
        full = full.removesuffix(ending)
    return full


async def find_server(
    pool: Pool, asked: Asked, count: Callable[[str], int] | None = None, version: bool = True
) -> Server:
    """InputError where nobody answers, or nobody who speaks this API.

    `count` is a local tokenizer's; without one, two probes tell what a word costs.
    """
    url = base_url(asked.url)
    target = Target(url, asked.model or "", asked.endpoint or "chat", asked.headers, None, asked.verify_tls)
    models = await fetch(pool, target, "GET", "/v1/models", timeout_s=min(asked.timeout_s, 30.0))
    if models.closing in ("refused", "timeout"):
        raise InputError(f"no server answers at {shown(url)}: {models.error}")
    refuse_strangers(models.status, url)
    listed = listed_models(models)
    if asked.model is None and not listed:
        raise InputError(why_no_models(models, url))
    model, notes = chosen(asked.model, [entry["id"] for entry in listed])
    target = replace(target, model=model)
    dialect = Dialect(model, asked.endpoint or "chat", extra=asked.extra)
    dialect, tokens = await agree(pool, target, dialect, asked)
    target = replace(target, endpoint=dialect.endpoint)
    known = await calibrated(pool, target, dialect, asked.timeout_s, tokens, count)
    kind, release = await kind_of(pool, target, models) if version else ("unknown", "")
    longest = next((longest_of(entry) for entry in listed if entry["id"] == model), None)
    facts = {
        "kind": kind,
        "version": release,
        "model": model,
        "endpoint": dialect.endpoint,
        "longest_tokens": "" if longest is None else str(longest),
        "tokens_per_word": f"{known.tokens_per_word:.4g}",
        "template_tokens": f"{known.template_tokens:.4g}",
        "prompt_tokens_by": known.source,
    }
    notes += [*speaking.notes_of(dialect), *calibrating.notes_of(known)]
    return Server(
        target,
        dialect,
        known,
        longest,
        tuple((name, value) for name, value in facts.items() if value),
        tuple(notes),
    )


def chosen(model: str | None, listed: list[str]) -> tuple[str, list[str]]:
    """The model to ask for, and what is to be said of the choice."""
    if model is not None:
        if listed and model not in listed:
            return model, [f"the server does not list the model {model}{nearest(model, listed)}"]
        return model, []
    others = f", of {len(listed)} that the server lists" if listed[1:] else ""
    return listed[0], [f"the model is {listed[0]}{others}"] if others else []


def why_no_models(models: Exchange, url: str) -> str:
    if not models.status:
        return f"{shown(url)} gives no answer at /v1/models: {models.error}"
    why = "" if models.status == 200 else refusal(models, body_of(models))[1]
    if 300 <= models.status < 400:
        return f"{shown(url)} answers {why}"
    return f"{shown(url)} lists no models at /v1/models{why and f' ({why})'}: give --model NAME"


async def agree(pool: Pool, target: Target, dialect: Dialect, asked: Asked) -> tuple[Dialect, int]:
    """A dialect that the server takes, and the prompt tokens that the first probe cost there."""
    others: list[Endpoint] = [] if asked.endpoint else ["completions"]
    tried_alone = False
    while True:
        reply = await probe(pool, target, dialect, SHORT_WORDS, asked.timeout_s)
        if reply.outcome in ("finished", "empty") or (reply.outcome == "truncated" and reply.status == 200):
            return dialect, reply.prompt_tokens
        if reply.status in (404, 405, 501) and others and "model" not in reply.reason.lower():
            dialect = replace(dialect, endpoint=others.pop())
            continue
        if reply.status not in (200, 400, 422) or (smaller := without_named(dialect, reply.reason)) is None:
            if reply.status in (400, 422) and dialect.optional and not tried_alone:
                tried_alone = True
                dialect = await one_by_one(pool, target, dialect, asked.timeout_s)
                continue
            raise InputError(why_not(reply, target.url))
        dialect = smaller


async def one_by_one(pool: Pool, target: Target, dialect: Dialect, timeout_s: float) -> Dialect:
    """A refusal that names nothing: each optional parameter on its own."""
    taken = []
    for name in OPTIONAL:
        if name in dialect.optional:
            reply = await probe(pool, target, replace(dialect, optional=(name,)), SHORT_WORDS, timeout_s)
            if reply.status not in (400, 422):
                taken.append(name)
    return replace(dialect, optional=tuple(taken))


async def calibrated(
    pool: Pool,
    target: Target,
    dialect: Dialect,
    timeout_s: float,
    tokens: int,
    count: Callable[[str], int] | None,
) -> Calibration:
    if count is not None:
        text = " ".join(random_words(Random(0), LONG_WORDS))
        slope = max(count(text) / LONG_WORDS, 1e-3)
        return Calibration(slope, max(tokens - slope * SHORT_WORDS, 0.0) if tokens else 0.0, "tokenizer")
    if not tokens:
        return Calibration()
    reply = await probe(pool, target, dialect, LONG_WORDS, timeout_s)
    counts = (tokens or None, reply.prompt_tokens or None)
    return calibrate((SHORT_WORDS, LONG_WORDS), counts) if reply.status == 200 else Calibration()


async def probe(pool: Pool, target: Target, dialect: Dialect, words: int, timeout_s: float) -> Reply:
    """One small request; its prompt tokens are the server's count, or 0 where it does not count."""
    rng = Random()
    text = unique_text(rng, random_words(rng, words), rng.randrange(1 << 30), words)
    call = Call(0, dialect.body((("user", text),), PROBE_TOKENS), PROBE_TOKENS, 0)
    done = await exchange(pool, call, target, dialect.path, monotonic(), timeout_s)
    return read_reply(done, dialect.endpoint)


def refuse_strangers(status: int, url: str) -> None:
    if status in (401, 403):
        raise InputError(
            f"{shown(url)} answers HTTP {status}: it wants a key; give --api-key, or --header 'Name: value'"
        )


def why_not(reply: Reply, url: str) -> str:
    refuse_strangers(reply.status, url)
    if reply.status in (429, 503):
        return f"{shown(url)} takes no requests now (HTTP {reply.status}): {reply.reason}"
    if reply.status in (404, 405):
        where = f"{shown(url)} has no such endpoint or model (HTTP {reply.status})"
        return f"{where}: {reply.reason}; try --endpoint or --model"
    where = f" (HTTP {reply.status})" if reply.status else ""
    return f"{shown(url)} does not answer a first request{where}: {reply.reason}"


def shown(url: str) -> str:
    """Without a password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
