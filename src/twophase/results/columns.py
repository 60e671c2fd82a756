"""Which field of a Point a column fills: a table of the names that tools and people use."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twophase.errors import InputError, nearest
from twophase.results.point import RATES, TIMES

SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
STATISTICS = {"mean": "mean", "avg": "mean", "average": "mean", "median": "median", "p50": "median"}
RANKS = {"mean": 0, "": 0, "median": 1}
OTHER_STATISTICS = re.compile(r"p\d+|std|stdev|stddev|min|max|percentiles?|slo|goodput|peak")
SOURCES = {"silicon", "measured"}  # words that say where a number is from, not what it is

# Earlier names of a field win over later ones.
TIME_NAMES = {
    "ttft_s": ("ttft", "time_to_first_token", "first_token_latency", "prefill_latency", "prompt_time"),
    "tpot_s": (
        *("tpot", "time_per_output_token", "itl_or_tpot", "itl", "inter_token_latency", "tbt", "token_time"),
        *("intertoken_latency", "decode_latency"),
    ),
    "e2e_s": (
        *("e2e", "e2el", "e2e_latency", "request_latency", "end_to_end_latency", "e2e_time", "total_latency"),
        "latency",
    ),
}
TOKENS_A_SECOND = (
    *("tokens_per_s", "tokens_per_second", "tokens_sec", "tok_s", "tok_per_s", "tps", "tput", "throughput"),
    *("throughput_tok_s", "throughput_tokens_s", "token_throughput", "token_throughput_tok_s"),
    *("token_throughput_tokens_s", "token_throughput_tokens_sec"),
)
WHOSE = {"output": ("output", "out", "generation"), "input": ("input", "prefill", "prompt")}
AMBIGUOUS = set(TOKENS_A_SECOND) | {f"{name}_per_gpu" for name in TOKENS_A_SECOND}

NAMES: dict[str, tuple[str, ...]] = {
    "row": ("case", "id", "row"),
    "model": ("model", "model_id", "model_path", "model_name", "hf_id"),
    "gpu": ("gpu", "system", "hardware", "accelerator", "device", "hw", "gpu_name", "gpu_type"),
    "gpus": ("gpus", "n_gpus", "n_gpu", "num_gpus", "gpu_count", "world_size"),
    "tp": ("tp", "tp_size", "tensor_parallel_size", "tensor_parallel"),
    "pp": ("pp", "pp_size", "pipeline_parallel_size", "pipeline_parallel"),
    "dp": ("dp", "dp_size", "attention_dp_size", "data_parallel_size", "data_parallel"),
    "ep": ("ep", "ep_size", "moe_ep_size", "expert_parallel_size"),
    "weights": (
        *("weights", "gemm_quant_mode", "precision", "quantization", "quant", "weight_quant", "dtype"),
    ),
    "kv": ("kv", "kv_cache_dtype", "kv_quant_mode", "kv_dtype"),
    "engine": ("engine", "framework", "backend", "endpoint_type"),
    "concurrency": (
        *("max_concurrency", "concurrency", "batch_or_concurrency", "conc", "batch", "batch_size"),
        "num_concurrent",
    ),
    "batch_is_resident": ("batch_is_resident", "static_batch"),
    "input_tokens": (
        *("input_tokens", "isl", "in_len", "input_len", "input_length", "prompt_tokens", "prompt_len"),
        *("prompt_size", "input_sequence_length", "input_sequence_length_tokens", "random_input_len"),
    ),
    "output_tokens": (
        *("output_tokens", "osl", "out_len", "output_len", "output_length", "completion_tokens"),
        *("token_size", "output_sequence_length", "output_sequence_length_tokens", "random_output_len"),
    ),
    "cached_tokens": ("cached_tokens", "cached_input_tokens"),
    "requests_per_s": (
        *("requests_per_s", "requests_per_second", "request_throughput", "req_s", "rps", "qps"),
        *("request_throughput_requests_sec", "request_throughput_req_s", "request_throughput_per_sec"),
    ),
    "statistic": ("statistic",),
    "notes": ("notes", "stat_and_notes", "comment"),
    "disaggregated": ("disaggregated", "disagg", "mode"),
    "tok_s": ("tok_s",),
    "tok_s_meaning": ("tok_s_meaning",),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column's place: times its `scale` it is the field; of several with a value the least rank counts."""

    name: str  # as the file spells it
    field: str
    scale: float | None = 1.0  # None: a time without a unit, or tokens a second of unknown tokens
    statistic: str = ""
    rank: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are."""

    by_field: Mapping[str, list[Column]]  # best first
    tok_s: tuple[str, str] | None  # the column of tokens a second, and that of what they are
    unknown: tuple[str, ...]


def _rate_names() -> dict[str, tuple[str, int]]:
    names = {
        f"{said}_{spelled}{whole}": (f"{whose}_tokens_per_s{whole}", 0)
        for whose, says in WHOSE.items()
        for said in says
        for spelled in TOKENS_A_SECOND
        for whole in ("", "_per_gpu", "_per_user")
        if f"{whose}_tokens_per_s{whole}" in RATES
    }
    both = (
        *("total_tokens_per_s", "total_tokens_per_second", "total_throughput", "total_token_throughput"),
        *("total_token_throughput_tok_s", "total_token_throughput_tokens_sec"),
    )
    names |= {
        f"{name}{whole}": (f"total_tokens_per_s{whole}", 0) for name in both for whole in ("", "_per_gpu")
    }
    names["output_token_throughput_per_user_tokens_sec_user"] = ("output_tokens_per_s_per_user", 0)
    return names


PLAIN = {
    name: (field, rank) for field, names in NAMES.items() for rank, name in enumerate(names)
} | _rate_names()
TIMED = {name: (field, rank) for field, names in TIME_NAMES.items() for rank, name in enumerate(names)}
KNOWN = (*(f"{field[:-2]}_ms" for field in TIMES), *TIMES, *RATES, *NAMES)


def column(name: str) -> Column | None:
    """What this column's name says, or None: `mean_ttft_ms`, `Median TPOT (ms)`, `output_throughput` ..."""
    spelled = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if spelled in PLAIN:
        field, rank = PLAIN[spelled]
        return Column(name, field, rank=(rank, 0))
    if spelled in AMBIGUOUS:
        return Column(name, "output_tokens_per_s", scale=None, rank=(len(AMBIGUOUS), 0))
    words = [word for word in spelled.split("_") if word not in SOURCES]
    statistic = next((STATISTICS[word] for word in words if word in STATISTICS), "")
    words = [word for word in words if word not in STATISTICS]
    if any(OTHER_STATISTICS.fullmatch(word) for word in words):
        return None
    unit = next((word for word in reversed(words) if word in SECONDS), None)
    timed = "_".join(word for word in words if word != unit)
    if timed in TIMED:
        field, rank = TIMED[timed]
        scale = SECONDS[unit] if unit else None
        return Column(name, field, scale, statistic, (rank, RANKS[statistic]))
    rest = "_".join(words)
    if rest in PLAIN:
        field, rank = PLAIN[rest]
        return Column(name, field, statistic=statistic, rank=(rank, RANKS[statistic]))
    return None


def named(key: str) -> Column:
    """The same for a name that a user gives; InputError with the nearest names where it is unknown."""
    found = column(key)
    if found is None or found.scale is None or found.field in ("tok_s", "tok_s_meaning"):
        hint = nearest(key, KNOWN) or f"; known are {', '.join(KNOWN)}"
        raise InputError(f"unknown field {key!r}{hint}")
    return found


def columns_of(names: Sequence[str], overrides: Mapping[str, str]) -> Columns:
    """Which columns fill which fields. `overrides` are known names with the file's COLUMN for each."""
    by_field: dict[str, list[Column]] = {}
    for key, spelled in overrides.items():
        as_known = named(key)
        if spelled in names:
            by_field.setdefault(as_known.field, []).append(replace(as_known, name=spelled))
    taken = {each.name for columns in by_field.values() for each in columns}
    found = [column(name) for name in names if name not in taken]
    for each in sorted((each for each in found if each), key=lambda each: each.rank):
        by_field.setdefault(each.field, []).append(each)
    tok_s, meaning = (by_field.pop(field, []) for field in ("tok_s", "tok_s_meaning"))
    used = {each.name for each in (*tok_s, *meaning, *(each for some in by_field.values() for each in some))}
    return Columns(
        by_field,
        (tok_s[0].name, meaning[0].name if meaning else "") if tok_s else None,
        tuple(name for name in names if name not in used),
    )


MEANINGS = "output tok/s, output tok/s per GPU, output tok/s/user, (in+out) tok/s, (in+out) tok/s per GPU"


def rate_field(meaning: str) -> str | None:
    """The field of "(in+out) tok/s per GPU" and the like; "" where no field has it, None where unclear."""
    said = meaning.lower()
    share = "_per_gpu" if "gpu" in said else "_per_user" if re.search(r"(/|per )user\b", said) else ""
    if re.search(r"in ?\+ ?out|input ?(\+|and) ?output", said):
        whose = "total"
    elif re.search(r"output|decode|generat", said):
        whose = "output"
    elif "input" in said:
        whose = "input"
    else:
        return None
    field = f"{whose}_tokens_per_s{share}"
    # Tokens from a cache are not computed, and a node is neither a GPU nor the system.
    return field if field in RATES and "cache" not in said and "node" not in said else ""
