"""The nested results of serving benchmarks as flat cells under names that say their statistic and unit.

Schemas: guidellm 0.3 to 0.8 (benchmarks.json), aiperf and genai-perf (profile_export_*.json), `vllm bench
serve | throughput | latency`, SGLang bench_serving, bench_one_batch and bench_one_batch_server, NVIDIA
aiconfigurator's silicon tables.
"""

import re
from collections.abc import Callable, Mapping

from twophase.results.cells import is_empty, number
from twophase.results.tables import Cells, Row

CLIENTS = re.compile(r"silicon_concurrency=(\d+)")
AIPERF_TIMES = {"time_to_first_token": "ttft", "inter_token_latency": "itl", "request_latency": "e2e"}
AIPERF_OTHERS = {
    "output_token_throughput": "output_tokens_per_s",
    "output_token_throughput_per_user": "output_tokens_per_s_per_user",
    "total_token_throughput": "total_tokens_per_s",
    "request_throughput": "requests_per_s",
    "input_sequence_length": "input_tokens",
    "output_sequence_length": "output_tokens",
}
GUIDELLM = {
    # Its time_per_output_token_ms has the TTFT inside; only its ITL is the time between tokens.
    "time_to_first_token_ms": "ttft_ms",
    "inter_token_latency_ms": "itl_ms",
    "request_latency": "e2e_s",
    "output_tokens_per_second": "output_tokens_per_s",
    "prompt_tokens_per_second": "input_tokens_per_s",
    "tokens_per_second": "total_tokens_per_s",
    "requests_per_second": "requests_per_s",
    "prompt_token_count": "input_tokens",
    "output_token_count": "output_tokens",
}
ONE_BATCH = {
    "prefill_latency": "ttft_s",
    "last_ttft": "ttft_s",
    "median_decode_latency": "median_tpot_s",
    "total_latency": "e2e_s",
    "latency": "e2e_s",
    "prefill_throughput": "input_tokens_per_s",
    "input_throughput": "input_tokens_per_s",
    "overall_throughput": "total_tokens_per_s",
}


def flat_rows(rows: list[Row]) -> list[Row]:
    """The rows with plain cells; the same cells where no tool's schema is seen in them."""
    readers: dict[tuple[str, ...], Callable[[Cells], Cells] | None] = {}
    flat = []
    for row in rows:
        names = tuple(row.cells)
        if names not in readers:
            readers[names] = next((read for seen, read in SCHEMAS if seen(row.cells)), None)
        read = readers[names]
        flat.append(Row(row.where, read(row.cells)) if read else row)
    return flat


def _at(cells: object, *path: str) -> object:
    """The value at a path of keys, or None."""
    for key in path:
        cells = cells.get(key) if isinstance(cells, Mapping) else None
    return cells


def _guidellm(cells: Cells) -> Cells:
    found: dict[str, object] = {}
    for theirs, ours in GUIDELLM.items():
        of_requests = _at(cells, "metrics", theirs, "successful") or _at(cells, "metrics", theirs, "total")
        for statistic in ("mean", "median"):
            value = _at(of_requests, statistic)
            if value is not None:
                found[f"{statistic}_{ours}"] = value
    strategy = _at(cells, "config", "strategy") or _at(cells, "args", "strategy")
    # Under a rate, max_concurrency is only a cap: what was in flight was observed.
    streams = _at(strategy, "streams")
    if _at(strategy, "type_") in (None, "concurrent", "throughput"):
        streams = streams or _at(strategy, "max_concurrency")
    if _at(strategy, "type_") == "synchronous":
        streams = 1
    observed = _at(cells, "metrics", "request_concurrency", "successful", "mean")
    found["concurrency"] = observed if streams is None else streams
    found["model"] = (
        _at(cells, "report", "config", "backend", "model")
        or _at(cells, "report", "args", "model")
        or _at(cells, "config", "backend", "model")
        or _at(cells, "worker", "backend_model")
    )
    return found


def _aiperf(cells: Cells) -> Cells:
    found: dict[str, object] = {}
    for theirs, ours in (AIPERF_TIMES | AIPERF_OTHERS).items():
        unit = str(_at(cells, theirs, "unit") or "ms")
        for statistic, field in (("mean", "avg"), ("median", "p50")):
            value = _at(cells, theirs, field)
            if value is not None:
                name = f"{statistic}_{ours}"
                found[f"{name}_{unit}" if theirs in AIPERF_TIMES else name] = value
    config = cells.get("input_config")
    models = (
        _at(config, "endpoint", "model_names"),
        _at(config, "models", "items"),
        _at(config, "model"),
        _at(config, "model_names"),
    )
    model = next((each for each in models if each), None)
    model = model[0] if isinstance(model, list) else model
    found["model"] = model.get("name") if isinstance(model, Mapping) else model
    phases = _at(config, "phases")
    measured = phases[-1] if isinstance(phases, list) and phases else None  # warm-up comes first
    found["concurrency"] = (
        _at(config, "loadgen", "concurrency")
        or _at(config, "profiling", "concurrency")
        or _at(measured, "concurrency")
        or _at(config, "concurrency")
        or _at(config, "perf_analyzer", "stimulus", "concurrency")
    )
    return found


def _vllm_throughput(cells: Cells) -> Cells:
    return {
        **{name: cells[name] for name in cells if name not in ("tokens_per_second", "requests_per_second")},
        "engine": "vllm",
        "requests_per_s": cells["requests_per_second"],
        "total_tokens_per_s": cells.get("tokens_per_second"),
        "notes": "offline, all queued",
    }


def _one_batch(cells: Cells) -> Cells:
    """One static batch of SGLang, in process or through its server."""
    found: dict[str, object] = {**cells, "engine": "sglang", "batch_is_resident": True}
    for theirs, ours in ONE_BATCH.items():
        if theirs in found:
            found[ours] = found.pop(theirs)
    decode_rate = number(found.pop("output_throughput", None))  # over the time after the first tokens
    names = ("batch_size", "input_len", "output_len", "e2e_s", "ttft_s", "cache_hit_rate")
    batch, inputs, outputs, whole, first, hits = (number(found.get(name)) for name in names)
    if first is None and decode_rate and batch and outputs and whole:
        first = found["ttft_s"] = max(0.0, whole - batch * outputs / decode_rate)
    if "median_tpot_s" not in found and first and whole and outputs and outputs > 1:
        found["tpot_s"] = max(0.0, whole - first) / (outputs - 1)
    if hits and inputs:
        found["cached_tokens"] = hits * inputs
    return found


def _serving(cells: Cells) -> Cells:
    """vLLM's and SGLang's: flat already, with totals in place of lengths."""
    found = dict(cells)
    completed = number(cells["completed"])
    for theirs, ours in (("total_input_tokens", "input_tokens"), ("total_output_tokens", "output_tokens")):
        total = number(cells.get(theirs))
        if completed and total is not None:
            found[ours] = total / completed
    asked, limit = number(cells.get("num_prompts")), number(cells.get("max_concurrency"))
    if asked and limit:
        found["max_concurrency"] = min(asked, limit)
    server = cells.get("server_info")  # SGLang's flags
    for name in ("model_path", "tp_size", "pp_size", "dp_size", "ep_size", "quantization", "kv_cache_dtype"):
        if _at(server, name) not in (None, "auto"):
            found[name] = _at(server, name)
    for name in ("backend", "endpoint_type"):  # a protocol of the client is not the engine
        engine = str(found.pop(name, None) or "").split("-")[0]
        if engine not in ("", "openai"):
            found["engine"] = engine
    return found


def _silicon(cells: Cells) -> Cells:
    """The batch is of one data-parallel rank; the source says how many clients all replicas had."""
    found = dict(cells)
    said = CLIENTS.search(str(cells["silicon_data_source"]))
    batch = None if is_empty(cells.get("batch_size")) else number(cells["batch_size"])
    own = batch * (number(cells.get("attention_dp_size")) or 1) if batch else None
    clients = float(said[1]) if said else own
    if clients and own and clients > own and clients % own == 0:
        clients = own  # of one replica, whose times these are
    found["max_concurrency"] = clients
    return found


def _vllm_latency(cells: Cells) -> Cells:
    return {"engine": "vllm", "mean_e2e_s": cells["avg_latency"], "batch_is_resident": True}


def _has(*names: str) -> Callable[[Cells], bool]:
    return lambda cells: all(name in cells for name in names)


SCHEMAS: tuple[tuple[Callable[[Cells], bool], Callable[[Cells], Cells]], ...] = (
    (lambda cells: isinstance(cells.get("metrics"), dict) and "report" in cells, _guidellm),
    (
        lambda cells: any(_at(cells, name, "avg") is not None for name in AIPERF_TIMES | AIPERF_OTHERS),
        _aiperf,
    ),
    (_has("total_num_tokens", "requests_per_second"), _vllm_throughput),
    (_has("avg_latency", "latencies"), _vllm_latency),
    (_has("batch_size", "overall_throughput"), _one_batch),
    (_has("total_output_tokens", "completed"), _serving),
    (_has("silicon_data_source"), _silicon),
)
