"""The main job: run a model in our own engine, time both phases beside the machine's roofs, and judge."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twophase.advise.bend import fit_ttft
from twophase.advise.diagnosis import DecodeRow, Diagnosis, PrefillRow, RequestSplit, Roofs
from twophase.advise.verdict import bound_of, judge
from twophase.cost.pass_ import Pass, Span
from twophase.cost.price import price_of
from twophase.engine.kv import KVFormat
from twophase.engine.measure import (
    DECODE_SHARE,
    PREFILL_SHARE,
    Bench,
    Price,
    Timed,
    new_bench,
    plan,
    positions_needed,
    random_ids,
    serve,
    time_decodes,
    time_prefills,
)
from twophase.engine.open import OpenModel, require_window
from twophase.engine.packer import Format
from twophase.engine.sampling import GREEDY
from twophase.engine.storage import share_left
from twophase.hardware.probe import cpu_name
from twophase.kernels.tile import instructions
from twophase.model.cache import kv_bytes_per_token

Report = Callable[[str, float], None]  # what is being done, and the share of the whole that is done
REQUEST_SHARE = 1 - PREFILL_SHARE - DECODE_SHARE  # of the budget
NOTABLE = 0.05  # how far a pass may beat the probes beside it, or a roof wander, before a note says so


def diagnose(
    model: OpenModel,
    *,
    kv: KVFormat | None = None,
    budget_s: float,
    prompt_tokens: int,
    output_tokens: int,
    threads: int,
    report: Report = lambda doing, share: None,
) -> Diagnosis:
    """Measure for about `budget_s` seconds. InputError where the request exceeds the context window."""
    started = time.perf_counter()
    spec, network = model.spec, model.network
    require_window(spec, prompt_tokens, output_tokens)
    own = model.deployment(kv)
    price = price_of(own)
    report("probing the machine and preparing kernels", 0.0)
    bench = new_bench(model.executor(positions=16, sequences=1, threads=threads, kv=kv), price)
    sizes = plan(bench, budget_s, spec.context_length, prompt_tokens + output_tokens // 2)
    positions, sequences = positions_needed(sizes, prompt_tokens + output_tokens)
    bench.executor = model.executor(positions=positions, sequences=sequences, threads=threads, kv=kv)
    bench.executor.warm_up(GREEDY)
    measuring = time.perf_counter()

    prefills, decodes = [], []
    for timed in time_prefills(bench, sizes):
        prefills.append(timed)
        report("timing prefills", 0.05 + 0.45 * len(prefills) / len(sizes.prompt_tokens))
    for timed in time_decodes(bench, sizes):
        decodes.append(timed)
        report("timing decodes", 0.5 + 0.2 * len(decodes) / (len(sizes.contexts) + len(sizes.batches)))
    report("running the reference request", 0.7)
    left = budget_s - (time.perf_counter() - measuring)
    whole = _run_whole(bench, prompt_tokens, output_tokens, left, prefills, decodes)

    whole_passes = _as_timed(price, prompt_tokens, output_tokens, whole) if whole else []
    roofs = _roofs(bench, [*prefills, *decodes, *whole_passes], threads)
    prefill_rows = tuple(_prefill_row(t, roofs) for t in sorted(prefills, key=lambda t: t.pass_.rows))
    decode_rows = tuple(_decode_row(t, roofs) for t in sorted(decodes, key=_batch_then_context))
    fit = fit_ttft(prefill_rows)

    def floor_s(pass_: Pass) -> float:
        flops, bytes_ = price(pass_)
        return max(flops / roofs.flops_per_s, bytes_ / roofs.read_bytes_per_s)

    prefill_floor_s = floor_s(Pass((Span(0, prompt_tokens, 0),)))
    decode_floor_s = sum(floor_s(Pass((Span(0, 1, prompt_tokens + i),))) for i in range(output_tokens - 1))
    # Where the request was not run: its floor, times what measured passes took over theirs.
    over = np.interp(
        np.log(prompt_tokens),
        np.log([row.prompt_tokens for row in prefill_rows]),
        [row.ttft_s / row.floor_s for row in prefill_rows],
    )
    slowdown = statistics.median(row.itl_s / row.floor_s for row in decode_rows if row.batch == 1)
    prefill_s, decode_s = whole or (prefill_floor_s * float(over), decode_floor_s * slowdown)
    request = RequestSplit(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prefill_s=prefill_s,
        decode_s=decode_s,
        prefill_floor_s=prefill_floor_s,
        decode_floor_s=decode_floor_s,
        dominant="prefill" if prefill_s >= decode_s else "decode",
        extrapolated=whole is None,
    )
    kv_bytes = int(kv_bytes_per_token(spec, own.kv_bytes))
    verdict = judge(
        prefill=prefill_rows,
        decode=decode_rows,
        fit=fit,
        request=request,
        roofs=roofs,
        narrower=_narrower(model),
        weight_bytes=network.arena.nbytes,
        kv_bytes_per_token=kv_bytes,
    )
    return Diagnosis(
        model=spec.name,
        weights=model.load,
        weight_format=model.weights,
        weight_bytes=network.arena.nbytes,
        kv_bytes_per_token=kv_bytes,
        roofs=roofs,
        prefill=prefill_rows,
        decode=decode_rows,
        ttft_fit=fit,
        request=request,
        verdict=verdict,
        seconds=time.perf_counter() - started,
        notes=(*model.notes, *_notes(roofs, request, [*prefills, *decodes])),
    )


def _narrower(model: OpenModel) -> dict[str, float]:
    """Formats of our engine, with its scales and the head that it keeps wider."""
    formats: tuple[Format, ...] = ("int8", "int4")
    left = {each: share_left(model.spec, model.network.compute, model.weights, each) for each in formats}
    return {name: share for name, share in left.items() if share < 1}


def _batch_then_context(timed: Timed) -> tuple[int, int]:
    return len(timed.pass_.spans), timed.pass_.spans[0].context


def _run_whole(
    bench: Bench,
    prompt_tokens: int,
    output_tokens: int,
    left_s: float,
    prefills: Sequence[Timed],
    decodes: Sequence[Timed],
) -> tuple[float, float] | None:
    """(prefill, decode) seconds of the request, run for real; None where too little time is left for it."""
    longest = max(prefills, key=lambda timed: timed.pass_.rows)
    itl_s = max(timed.median_s for timed in decodes if len(timed.pass_.spans) == 1)
    if longest.median_s * prompt_tokens / longest.pass_.rows + itl_s * output_tokens > left_s:
        return None
    record = serve(bench, [random_ids(bench.executor, prompt_tokens)], output_tokens)[0]
    return record.token_s[0] - record.arrival_s, record.token_s[-1] - record.token_s[0]


def _as_timed(
    price: Price, prompt_tokens: int, output_tokens: int, whole: tuple[float, float]
) -> list[Timed]:
    """The whole request's phases as witnesses of what the machine can do: decode by its middle pass."""
    prefill = Pass((Span(0, prompt_tokens, 0),))
    middle = Pass((Span(0, 1, prompt_tokens + output_tokens // 2),))
    steps = max(1, output_tokens - 1)
    seconds = [(prefill, whole[0]), (middle, whole[1] / steps)]
    return [Timed(pass_, price(pass_), (each,), 0.0, 0.0) for pass_, each in seconds if each > 0]


def _figures(timed: Timed, roofs: Roofs) -> dict[str, Any]:
    """A pass against the run's best roofs; what binds it is judged by the roofs as they were beside it."""
    flops, bytes_ = timed.cost
    compute_s, memory_s = flops / roofs.flops_per_s, bytes_ / roofs.read_bytes_per_s
    flops_beside, read_beside = _beside(timed)
    slow_compute_s, slow_memory_s = flops / flops_beside, bytes_ / read_beside
    return {
        "floor_s": max(compute_s, memory_s),
        "compute_s": compute_s,
        "memory_s": memory_s,
        "flops": flops,
        "bytes": bytes_,
        "mfu": compute_s / timed.median_s,
        "mbu": memory_s / timed.median_s,
        "bound": bound_of(measured_s=timed.median_s, compute_s=slow_compute_s, memory_s=slow_memory_s),
        "runs": len(timed.seconds),
        "roof_share": max(compute_s, memory_s) / max(slow_compute_s, slow_memory_s),
    }


def _beside(timed: Timed) -> tuple[float, float]:
    """(FLOP/s, bytes/s) that the machine showed around a pass: its probes', or its own where it beat them."""
    flops, bytes_ = timed.cost
    return max(timed.flops_per_s, flops / timed.best_s), max(timed.read_bytes_per_s, bytes_ / timed.best_s)


def _prefill_row(timed: Timed, roofs: Roofs) -> PrefillRow:
    return PrefillRow(prompt_tokens=timed.pass_.rows, ttft_s=timed.median_s, **_figures(timed, roofs))


def _decode_row(timed: Timed, roofs: Roofs) -> DecodeRow:
    batch, context = _batch_then_context(timed)
    return DecodeRow(batch=batch, context=context, itl_s=timed.median_s, **_figures(timed, roofs))


def _roofs(bench: Bench, timed: Sequence[Timed], threads: int) -> Roofs:
    """The best of the whole run: of every probe, and of every pass that beat the probes beside it."""
    compute = bench.executor.network.compute
    flops_per_s = max(*bench.flops_per_s, *(_beside(each)[0] for each in timed))
    read_bytes_per_s = max(*bench.read_bytes_per_s, *(_beside(each)[1] for each in timed))
    return Roofs(
        flops_per_s=flops_per_s,
        read_bytes_per_s=read_bytes_per_s,
        ridge_flop_per_byte=flops_per_s / read_bytes_per_s,
        flops_per_s_range=(min(bench.flops_per_s), flops_per_s),
        read_bytes_per_s_range=(min(bench.read_bytes_per_s), read_bytes_per_s),
        compute=f"{compute} ({instructions(compute)})",
        threads=threads,
        cpu=cpu_name(),
    )


def _notes(roofs: Roofs, request: RequestSplit, timed: Sequence[Timed]) -> list[str]:
    notes = []
    for name, unit, (low, high) in (
        ("matmul rate", "GFLOP/s", roofs.flops_per_s_range),
        ("read bandwidth", "GB/s", roofs.read_bytes_per_s_range),
    ):
        if high - low > 4 * NOTABLE * high:
            notes.append(
                f"The machine's {name} wandered between {low / 1e9:.0f} and {high / 1e9:.0f} {unit} during "
                "the run; floors are by the best of it, and roof_share tells a row's own."
            )
    beaten = [
        max(flops / each.flops_per_s, bytes_ / each.read_bytes_per_s) / each.best_s - 1
        for each in timed
        for flops, bytes_ in [each.cost]
    ]
    if max(beaten) > NOTABLE:
        notes.append(
            f"{sum(share > NOTABLE for share in beaten)} of {len(beaten)} rows ran faster than the probes "
            f"beside them, by up to {max(beaten):.0%}: the machine sped up in between, and those runs "
            "count as probes."
        )
    longest = max(each.pass_.rows for each in timed)
    if request.extrapolated:
        whole_s = request.prefill_s + request.decode_s
        notes.append(
            "The reference request was not run whole: its times follow from the measured passes (a --budget "
            f"of about {whole_s / REQUEST_SHARE:.0f} s runs it)."
        )
        if request.prompt_tokens > longest:
            notes.append(
                f"Its prompt is {request.prompt_tokens / longest:.1f} times the longest that was timed, "
                f"{longest} tokens: its prefill is the floor times what that one took over its own."
            )
    return notes
