"""Where a page should be and is none, or none of an engine: what to turn on, and where to look instead."""

import json
from collections.abc import Collection
from typing import Any

from twophase.counters.fetch import Target, fetch, with_path
from twophase.counters.iterations import OFF
from twophase.counters.page import LLAMACPP
from twophase.errors import InputError
from twophase.owners import OWNERS

FLAGS = {  # by the names of OWNERS
    "llama.cpp": f"llama.cpp: start it as `{LLAMACPP}`",
    "SGLang": "SGLang: start it with --enable-metrics",
    "vLLM": "vLLM has them unless started with --disable-log-stats",
    "LMDeploy": "LMDeploy: start api_server with --enable-metrics",
    "TensorRT-LLM": f"TensorRT-LLM: {OFF}",
    "Ollama": "Ollama has no counters, only durations in each answer of its native API",
}
ROUTERS = {  # beginnings of names that only a router has
    "vllm:healthy_pods_total": "vLLM production-stack's router",
    "vllm:current_qps": "vLLM production-stack's router",
    "vllm_router": "vLLM's router",
    "sgl_router_": "SGLang's router",
    "smg_": "SGLang's model gateway",
    "inference_pool_": "the Gateway API's endpoint picker",
    "inference_model_": "the Gateway API's endpoint picker",
    "inference_objective_": "the Gateway API's endpoint picker",
    "litellm_": "LiteLLM",
    "envoy_": "Envoy",
    "aibrix_": "AIBrix",
    "dynamo_component_router": "Dynamo's router",
    "llamaswap_": "llama-swap",
}
HOSTED = {404: "not found", 405: "not allowed", 501: "not implemented"}


def router(names: Collection[str]) -> str | None:
    return next(
        (title for start, title in ROUTERS.items() if any(name.startswith(start) for name in names)), None
    )


def no_engine(names: Collection[str], source: str) -> InputError:
    """What a page without any engine's names is."""
    who = router(names)
    if who:
        return InputError(
            f"{source} is {who}, which has no engine's counters: give the /metrics of a worker behind it"
        )
    if any(name.startswith("dynamo_") for name in names):
        return InputError(f"{source} is a component of Dynamo: give its front end's page, or a worker's")
    some = ", ".join(sorted(names)[:3])
    return InputError(
        f"{source} has no counters of an engine that is known (vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp, "
        f"LMDeploy, Dynamo, twophase); it has {some} ..."
    )


def no_page(own: Target, status: int, content: bytes) -> InputError:
    """What a server that answers with an error lacks. Asks it which it is."""
    text = content[:2000].decode("utf-8", "replace")
    if status in (401, 403):
        return InputError(f"{own.url}: {status}, a key is needed: give --api-key or --header")
    if 300 <= status < 400:
        return InputError(
            f"{own.url}: status {status}, redirects that lead to no page: give the engine's own URL"
        )
    if status not in HOSTED:
        said = " ".join(text.split())[:100]
        return InputError(f"{own.url}: status {status}{': ' if said else ''}{said}")
    who = "llama.cpp" if "--metrics" in text else engine_at(own)
    if who in FLAGS:
        return InputError(f"{own.url}: {status}, no counters there. {FLAGS[who]}")
    known = "; ".join(FLAGS[each] for each in ("SGLang", "llama.cpp", "LMDeploy", "TensorRT-LLM"))
    return InputError(f"{own.url}: {status} {HOSTED[status]}. {known}")


def engine_at(own: Target) -> str | None:
    """By who owns its models, as /v1/models tells; None where that says nothing."""
    try:
        answer = fetch(with_path(own, "/v1/models"))
        found: Any = json.loads(answer.content)
        return OWNERS.get(str(found["data"][0]["owned_by"]).lower())
    except (InputError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
