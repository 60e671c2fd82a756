"""The main job: run a model in our own engine, time both phases beside the machine's roofs, and judge."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from twophase.advise.bend import fit_ttft, ttft_at
from twophase.advise.diagnosis import DecodeRow, Diagnosis, PrefillRow, RequestSplit, Roofs, Row
from twophase.advise.verdict import bound_of, judge
from twophase.cost.operators import price_of
from twophase.cost.pass_ import Pass, Span
from twophase.engine.measure import (
    Bench,
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
from twophase.hardware.probe import cpu_name
from twophase.kernels.tile import instructions
from twophase.model.counts import kv_bytes_per_token

Report = Callable[[str, float], None]  # what is being done, and the share of the whole that is done
NOTABLE = 0.05  # how far a pass may beat the probes beside it, or a roof wander, before a note says so


def diagnose(
    model: OpenModel,
    *,
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
    item_bytes = network.arena.itemsize

    price = price_of(spec, item_bytes, item_bytes)
    report("probing the machine's roofs", 0.0)
    bench = new_bench(model.executor(positions=16, sequences=1, threads=threads), price)
    sizes = plan(bench, budget_s, spec.context_length)
    positions, sequences = positions_needed(sizes, prompt_tokens + output_tokens)
    bench.executor = model.executor(positions=positions, sequences=sequences, threads=threads)
    report("compiling kernels (once a machine)", 0.02)
    bench.executor.warm_up()

    prefills, decodes = [], []
    for timed in time_prefills(bench, sizes):
        prefills.append(timed)
        report("timing prefills", 0.05 + 0.45 * len(prefills) / len(sizes.prompt_tokens))
    for timed in time_decodes(bench, sizes):
        decodes.append(timed)
        report("timing decodes", 0.5 + 0.2 * len(decodes) / (len(sizes.contexts) + len(sizes.batches)))
    report("running the reference request", 0.7)
    left = budget_s - (time.perf_counter() - started)
    whole = _run_whole(bench, prompt_tokens, output_tokens, left, prefills, decodes)

    prefill_rows = tuple(_prefill_row(t, price) for t in sorted(prefills, key=lambda t: t.pass_.rows))
    decode_rows = tuple(_decode_row(t, price) for t in sorted(decodes, key=_batch_then_context))
    fit = fit_ttft(prefill_rows)
    prefill_s, decode_s = whole or (
        ttft_at(fit, prompt_tokens),
        _decode_seconds(decode_rows, prompt_tokens, output_tokens),
    )
    roofs = _roofs(bench, [*prefill_rows, *decode_rows], threads)

    def floor_s(rows: Sequence[Row], passes: Iterable[Pass]) -> float:
        """Against the roofs as they were beside the rows of the phase."""
        flops_per_s = statistics.median(row.flops / row.compute_s for row in rows)
        read_bytes_per_s = statistics.median(row.bytes / row.memory_s for row in rows)
        priced = map(price, passes)
        return sum(max(flops / flops_per_s, bytes_ / read_bytes_per_s) for flops, bytes_ in priced)

    steps = [Pass((Span(0, 1, prompt_tokens + i),)) for i in range(output_tokens - 1)]
    single = [row for row in decode_rows if row.batch == 1]

    request = RequestSplit(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prefill_s=prefill_s,
        decode_s=decode_s,
        prefill_floor_s=min(prefill_s, floor_s(prefill_rows[-3:], [Pass((Span(0, prompt_tokens, 0),))])),
        decode_floor_s=min(decode_s, floor_s(single, steps)),
        dominant="prefill" if prefill_s >= decode_s else "decode",
        extrapolated=whole is None,
    )
    kv_bytes = int(kv_bytes_per_token(spec, item_bytes))
    verdict = judge(
        prefill=prefill_rows,
        decode=decode_rows,
        fit=fit,
        request=request,
        roofs=roofs,
        weight_format=network.compute,
        weight_bytes=network.arena.nbytes,
        kv_bytes_per_token=kv_bytes,
    )
    return Diagnosis(
        model=spec.name,
        weights=model.load,
        weight_format=network.compute,
        weight_bytes=network.arena.nbytes,
        kv_bytes_per_token=kv_bytes,
        roofs=roofs,
        prefill=prefill_rows,
        decode=decode_rows,
        ttft_fit=fit,
        request=request,
        verdict=verdict,
        seconds=time.perf_counter() - started,
        notes=(*model.notes, *_notes(roofs, request, [*prefills, *decodes], price)),
    )


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


def _decode_seconds(rows: Sequence[DecodeRow], prompt_tokens: int, output_tokens: int) -> float:
    """Summed over the request's decode passes; ITL straight in context, by least squares at batch 1."""
    contexts, seconds = np.array([(row.context, row.itl_s) for row in rows if row.batch == 1]).T
    slope, level = np.polyfit(contexts, seconds, 1) if len(contexts) > 1 else (0.0, seconds[0])
    return float(np.sum(level + max(slope, 0.0) * (prompt_tokens + np.arange(output_tokens - 1))))


def _figures(timed: Timed, price: Callable[[Pass], tuple[float, float]]) -> dict[str, Any]:
    """A row against the roofs beside it: the best of its probes, or of its own runs where one beat them."""
    flops, bytes_ = price(timed.pass_)
    compute_s = flops / max(timed.flops_per_s, flops / timed.best_s)
    memory_s = bytes_ / max(timed.read_bytes_per_s, bytes_ / timed.best_s)
    return {
        "floor_s": max(compute_s, memory_s),
        "compute_s": compute_s,
        "memory_s": memory_s,
        "flops": flops,
        "bytes": bytes_,
        "mfu": compute_s / timed.median_s,
        "mbu": memory_s / timed.median_s,
        "bound": bound_of(measured_s=timed.median_s, compute_s=compute_s, memory_s=memory_s),
        "runs": len(timed.seconds),
    }


def _prefill_row(timed: Timed, price: Callable[[Pass], tuple[float, float]]) -> PrefillRow:
    return PrefillRow(prompt_tokens=timed.pass_.rows, ttft_s=timed.median_s, **_figures(timed, price))


def _decode_row(timed: Timed, price: Callable[[Pass], tuple[float, float]]) -> DecodeRow:
    batch, context = _batch_then_context(timed)
    return DecodeRow(batch=batch, context=context, itl_s=timed.median_s, **_figures(timed, price))


def _roofs(bench: Bench, rows: Sequence[Row], threads: int) -> Roofs:
    """The best of the whole run: of every probe, and of every pass that beat the probes beside it."""
    compute = bench.executor.network.compute
    flops_per_s = max(*bench.flops_per_s, *(row.flops / row.compute_s for row in rows))
    read_bytes_per_s = max(*bench.read_bytes_per_s, *(row.bytes / row.memory_s for row in rows))
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


def _notes(
    roofs: Roofs, request: RequestSplit, timed: Sequence[Timed], price: Callable[[Pass], tuple[float, float]]
) -> list[str]:
    notes = []
    for name, unit, (low, high) in (
        ("matmul rate", "GFLOP/s", roofs.flops_per_s_range),
        ("read bandwidth", "GB/s", roofs.read_bytes_per_s_range),
    ):
        if high - low > 4 * NOTABLE * high:
            notes.append(
                f"The machine's {name} wandered between {low / 1e9:.0f} and {high / 1e9:.0f} {unit} during "
                "the run; each row is held against the roof probed beside it."
            )
    beaten = [
        max(flops / each.flops_per_s, bytes_ / each.read_bytes_per_s) / each.best_s - 1
        for each in timed
        for flops, bytes_ in [price(each.pass_)]
    ]
    if max(beaten) > NOTABLE:
        notes.append(
            f"{sum(share > NOTABLE for share in beaten)} of {len(beaten)} rows ran faster than the probes "
            f"beside them, by up to {max(beaten):.0%}: the machine sped up in between, and those rows set "
            "their own roof."
        )
    if request.extrapolated:
        notes.append(
            "The reference request was not run whole: its times are summed from the measured passes "
            "(a larger --budget runs it)."
        )
    return notes
