"""Which engine answers: by what it says of itself, never by its port."""

import json
import re
from collections.abc import Sequence
from typing import Any

from twophase.meter.chunks import shorten
from twophase.meter.compression import body_of
from twophase.meter.exchange import Pool, fetch
from twophase.meter.records import Exchange, Target
from twophase.owners import OWNERS

UNKNOWN = "unknown"
COUNTERS = {  # prefixes of counters
    "vllm:": "vLLM",
    "sglang:": "SGLang",
    "sglang_": "SGLang",
    "tgi_": "TGI",
    "llamacpp:": "llama.cpp",
    "lmdeploy:": "LMDeploy",
    "trtllm_": "TensorRT-LLM",
    "twophase": "twophase",
    "dynamo_": "Dynamo",
}
SERVERS = {
    "llama.cpp": "llama.cpp",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "twophase": "twophase",
    "ollama": "Ollama",
}
LOOK_S = 5.0  # for each look


async def kind_of(pool: Pool, target: Target, models: Exchange) -> tuple[str, str]:
    """(kind, version), as far as they can be known."""
    header = dict(models.headers).get("server", "").lower()
    kind = next((name for key, name in SERVERS.items() if key in header), UNKNOWN)
    if kind == UNKNOWN:
        kind = kind_by_owner(listed_models(models))
    version = ""
    said = json_of(await fetch(pool, target, "GET", "/version", timeout_s=LOOK_S))
    if isinstance(said, dict):
        version = shorten(str(said.get("version", "")))
    if kind == UNKNOWN:
        page = await fetch(pool, target, "GET", "/metrics", timeout_s=LOOK_S)
        kind = kind_by_counters(body_of(page).decode(errors="replace")) if page.status == 200 else UNKNOWN
    if kind == UNKNOWN:
        info = json_of(await fetch(pool, target, "GET", "/info", timeout_s=LOOK_S))
        if isinstance(info, dict) and "max_total_tokens" in info:
            kind, version = "TGI", shorten(str(info.get("version", version)))
    return kind, version


def kind_by_owner(models: Sequence[dict[str, Any]]) -> str:
    owners = {str(model.get("owned_by", "")).lower() for model in models}
    return next((name for owner, name in OWNERS.items() if owner in owners), UNKNOWN)


def kind_by_counters(page: str) -> str:
    names = set(re.findall(r"^([A-Za-z_:][A-Za-z0-9_:]*)", page, re.MULTILINE))
    return next(
        (kind for prefix, kind in COUNTERS.items() if any(n.startswith(prefix) for n in names)), UNKNOWN
    )


def listed_models(models: Exchange) -> list[dict[str, Any]]:
    """The entries of /v1/models that have a name; none where it answers otherwise."""
    said = json_of(models)
    entries = said.get("data") if isinstance(said, dict) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and is_name(entry.get("id"))]


def is_name(name: Any) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def json_of(done: Exchange) -> Any:
    if done.status != 200:
        return None
    try:
        return json.loads(body_of(done))
    except (ValueError, RecursionError):
        return None


def longest_of(model: dict[str, Any]) -> int | None:
    """The longest sequence in tokens that a listed model says it takes."""
    places = (model, model.get("meta") if isinstance(model.get("meta"), dict) else {})
    for place in places:
        for name in ("max_model_len", "context_length", "max_context_length", "n_ctx"):
            value = (place or {}).get(name)
            if isinstance(value, int) and value > 0:
                return value
    return None
