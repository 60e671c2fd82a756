"""Which method can tell the phases' share of GPU time. Request-seconds never can.

Requests' prefill and decode times overlap: many sequences decode in one pass, so summed over requests decode
looks tens of times longer than it keeps the device busy.
"""

from twophase.counters.calibrated import Curves, calibrated
from twophase.counters.histogram import Histogram
from twophase.counters.interference import interference
from twophase.counters.picture import Picture
from twophase.counters.prior_type import Prior
from twophase.counters.share import Range, Share, exactly, part, share_of

WIDE = 0.5  # an interval wider than that tells nothing


def phase_shares(
    own: Picture,
    exact: str,
    itl: Histogram | None,
    curves: Curves | None = None,
    prior: Prior | None = None,
) -> tuple[list[Share], list[str]]:
    """(what could be found, the best method first; why others could not)."""
    found: list[Share] = []
    missing: list[str] = []
    if own.prefill_gpu_s is not None and own.decode_gpu_s is not None:
        if own.prefill_gpu_s + own.decode_gpu_s > 0:
            found.append(share_of("engine", exactly(own.prefill_gpu_s), exactly(own.decode_gpu_s), (exact,)))
    elif own.prefill_gpu_s is not None:
        found += _partly(own)
    else:
        missing.append(f"{own.title} does not tell the phases' GPU seconds here{TURN_ON.get(own.engine, '')}")
    results = [
        calibrated(own, curves) if curves else "no measured curves: --curves FILE gives them",
        interference(own, itl),
        _by_floors(own, prior) if prior else "no floors: --model and --gpu give them",
    ]
    for result in results:
        if isinstance(result, Share):
            found.append(result)
        elif not found or found[0].method != "engine":
            missing.append(result)
    useful = [each for each in found if each.prefill.high - each.prefill.low <= WIDE]
    return useful + [each for each in found if each not in useful], missing


def _by_floors(own: Picture, prior: Prior) -> Share | str:
    from twophase.counters.prior import roofline

    return roofline(own, prior)


TURN_ON = {
    "sglang": ": SGLANG_ENABLE_METRICS_DEVICE_TIMER=1 in its environment makes it",
    "vllm": ": only its log has them, with --enable-logging-iteration-details",
    "trtllm": ": its JSON at /metrics has them, with enable_iter_perf_stats: true",
    "dynamo": ": a worker's own page may",
}


def _partly(own: Picture) -> list[Share]:
    """llama.cpp: slots decode for so long together, others' prefill within that or not."""
    prefill_s, batch = own.prefill_gpu_s or 0.0, own.mean_decode_batch
    if not batch or not own.mean_running_decode or own.covered_s is None or not prefill_s:
        return []
    together_s = own.mean_running_decode * own.covered_s / batch
    if own.covered_s:
        together_s = min(together_s, own.covered_s)
    low, high = max(together_s - prefill_s, 0.0), together_s
    if high <= 0:
        return []
    why = (
        "prefill seconds hold the decodes that shared their batches",
        f"slots decoded for {together_s:.3g} s together, stalls by others' prefill included: decode took "
        f"{low:.3g} to {high:.3g} s",
    )
    decode_s = Range(low, (low + high) / 2, high)
    shares = Range(part(prefill_s, high), part(prefill_s, decode_s.mid), part(prefill_s, low))
    return [Share("engine-partly", shares, exactly(prefill_s), decode_s, why)]
