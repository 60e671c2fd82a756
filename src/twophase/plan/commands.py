"""How to start what a plan says: vLLM, SGLang, our own server."""

import shlex

from twophase.model.catalogue import hub_id
from twophase.plan.candidate import Candidate, Kind
from twophase.plan.question import Question

VLLM_WEIGHTS = {"fp8": "fp8"}  # quantised while loading; others need a checkpoint of their own
KV_NAMES = {"fp8": "fp8"}
# What sends each request to a prefill replica, then to a decode replica; addresses are the user's.
# vLLM docs/features/nixl_connector_usage.md, SGLang docs/advanced_features/pd_disaggregation.md
BETWEEN = {
    "vllm": "each on a machine of its own, with its VLLM_NIXL_SIDE_CHANNEL_HOST; clients ask a proxy before "
    "them, as vLLM's tests/v1/kv_connector/nixl_integration/toy_proxy_server.py --prefiller-hosts ... "
    "--decoder-hosts ...",
    "sglang": "each on a machine of its own; clients ask the router before them: python -m "
    "sglang_router.launch_router --pd-disaggregation --prefill http://... --decode http://...",
    "twophase": "each stands in for one machine and answers alone: nothing of ours sends a KV cache from one "
    "to the other",
}


def launch(question: Question, own: Candidate, model: str) -> dict[str, list[str]]:
    """By engine: a command for each kind of replica, how often it runs behind it; of split ones, as a last
    line, what goes between them."""
    parts = [(own.serving, own.replicas, "decode" if own.prefill else "")]
    if own.prefill is not None:
        parts.insert(0, (own.prefill, own.prefill_replicas, "prefill"))
    length, published = question.context_length, hub_id(model)
    found = {
        "vllm": [vllm(kind, published, length, role, number) for kind, number, role in parts],
        "sglang": [sglang(kind, published, length, role, number) for kind, number, role in parts],
        "twophase": [ours(kind, model, length, number) for kind, number, _ in parts],
    }
    if own.prefill is None:
        return found
    return {engine: [*lines, f"# {BETWEEN[engine]}"] for engine, lines in found.items()}


def vllm(kind: Kind, model: str, length: int, role: str, number: int) -> str:
    at = kind.layout
    flags = ["vllm", "serve", model, "--max-model-len", str(length)]
    flags += ["--max-num-batched-tokens", str(kind.max_tokens), "--max-num-seqs", str(kind.max_sequences)]
    flags += ["--tensor-parallel-size", str(at.tp)] if at.tp > 1 else []
    flags += ["--pipeline-parallel-size", str(at.pp)] if at.pp > 1 else []
    flags += ["--enable-expert-parallel"] if at.ep > 1 else []
    flags += ["--quantization", VLLM_WEIGHTS[at.weights]] if at.weights in VLLM_WEIGHTS else []
    flags += ["--kv-cache-dtype", KV_NAMES[at.kv]] if at.kv in KV_NAMES else []
    if role:
        kv_role = "kv_producer" if role == "prefill" else "kv_consumer"
        flags += ["--kv-transfer-config", f'{{"kv_connector":"NixlConnector","kv_role":"{kv_role}"}}']
    return said(number, flags, role, at.weights if at.weights not in VLLM_WEIGHTS else "")


def sglang(kind: Kind, model: str, length: int, role: str, number: int) -> str:
    at = kind.layout
    flags = ["python", "-m", "sglang.launch_server", "--model-path", model, "--context-length", str(length)]
    flags += [
        "--chunked-prefill-size",
        str(kind.max_tokens),
        "--max-running-requests",
        str(kind.max_sequences),
    ]
    flags += ["--tp", str(at.tp)] if at.tp > 1 else []
    flags += ["--pp-size", str(at.pp)] if at.pp > 1 else []
    flags += ["--ep-size", str(at.ep)] if at.ep > 1 else []
    flags += ["--quantization", "fp8"] if at.weights == "fp8" else []
    flags += ["--kv-cache-dtype", "fp8_e4m3"] if at.kv == "fp8" else []
    flags += ["--disaggregation-mode", role] if role else []
    return said(number, flags, role, at.weights if at.weights != "fp8" else "")


def ours(kind: Kind, model: str, length: int, number: int) -> str:
    """The stand-in server, whose passes take that accelerator's time: clients can be tried before."""
    at = kind.layout
    flags = ["twophase", "serve", model, "--clock", "roofline", "--gpu", at.gpu]
    flags += ["--context-length", str(length), "--max-tokens-per-pass", str(kind.max_tokens)]
    flags += ["--max-sequences", str(kind.max_sequences)]
    for name, size in at.plan.sizes:
        flags += [f"--{name}", str(size)] if size > 1 else []
    flags += ["--weights", at.weights] if at.weights else []
    flags += ["--kv", at.kv] if at.kv != "bf16" else []
    return said(number, flags, "its stages one pass at a time: slower" if at.pp > 1 else "", "")


def said(number: int, flags: list[str], about: str, checkpoint: str) -> str:
    notes = [f"{number} x"] if number > 1 else []
    notes += [about] if about else []
    notes += [f"a checkpoint in {checkpoint}"] if checkpoint else []
    return shlex.join(flags) + (f"    # {', '.join(notes)}" if notes else "")
