"""The production picture of one model, from an engine's quantities over a window."""

from collections.abc import Mapping

from twophase.counters.histogram import Histogram, implausible, quantile
from twophase.counters.picture import Picture, Times
from twophase.counters.quantities import Quantities
from twophase.counters.window import Window

SHARES = (0.5, 0.9, 0.95, 0.99)
SECONDS = ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode", "inference")
LEAST_S = 0.001  # no request's first token, nor its end, comes sooner
FEW = 30  # finished requests: fewer say little
ONE_TOKEN = 0.9  # tokens of a delivery: fewer can't be


def picture(own: Quantities, window: Window) -> Picture:
    """What can be derived without any model of the engine: sums, ratios, means."""
    counters, gauges, covered = own.counters, own.gauges, window.covered_s
    prompt, computed, cached, external = prompt_tokens(counters)
    generated = counters.get("generated")
    requests = counters.get("requests")
    times, doubts = _times(own.histograms)
    ttft, queue, prefill = (times.get(name) for name in ("ttft", "queue", "prefill"))
    first = ttft.count if ttft else requests
    decoding_s = _decoding_s(own)
    steps, batch = _steps(own, generated, first)
    prefill_s, decode_s = counters.get("prefill_s"), counters.get("decode_s")
    idle = counters.get("idle_s")
    busy_s = prefill_s + decode_s if prefill_s is not None and decode_s is not None else None
    context = gauges.get("context_tokens")
    bytes_ = counters.get("read_bytes", 0.0) + counters.get("written_bytes", 0.0)
    acceptance, per_step = _speculation(own)
    return Picture(
        engine=own.engine.name,
        title=own.engine.title,
        model=own.model,
        window_s=window.seconds,
        covered_s=covered,
        requests=requests,
        aborted=counters.get("aborted"),
        failed=counters.get("failed"),
        prompt_tokens=prompt,
        computed_prompt_tokens=computed,
        cached_prompt_tokens=cached,
        external_prompt_tokens=external,
        generation_tokens=generated,
        first_tokens=first,
        cached_share=ratio(cached, prompt),
        prefill_decode_token_ratio_billed=ratio(prompt, generated),
        prefill_decode_token_ratio_computed=ratio(computed, generated),
        prompt_tokens_mean=_length(times.get("prompt_length"), prompt, first),
        output_tokens_mean=_length(times.get("output_length"), generated, requests),
        ttft_mean_s=ttft.mean if ttft else None,
        queue_share_of_ttft=ratio(_total(queue), _total(ttft)),
        prefill_share_of_ttft=ratio(_total(prefill), _total(ttft)),
        tpot_mean_s=_tpot(own, decoding_s, generated, first),
        mean_running_decode=ratio(decoding_s, covered),
        mean_decode_batch=batch,
        decode_steps=steps,
        running=gauges.get("running"),
        waiting=gauges.get("waiting"),
        mean_queue=ratio(_total(queue), covered),
        context_tokens_mean=ratio(context, gauges.get("running")),
        kv_usage=gauges.get("kv_usage"),
        kv_tokens=gauges.get("kv_tokens"),
        preemptions=counters.get("preemptions"),
        wasted_tokens=counters.get("wasted_tokens"),
        acceptance=acceptance,
        tokens_per_step=per_step,
        prefill_gpu_s=prefill_s,
        decode_gpu_s=decode_s,
        gpu_busy=_busy(busy_s, idle, covered),
        prefill_share_of_busy=ratio(prefill_s, busy_s),
        prefill_floor_s=counters.get("prefill_floor_s"),
        decode_floor_s=counters.get("decode_floor_s"),
        flops=counters.get("flops"),
        intensity_flop_per_byte=ratio(counters.get("flops"), bytes_),
        times=times,
        notes=(*window.notes, *doubts, *_few(requests, generated), *own.engine.notes),
    )


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other is not None and other > 0 else None


def prompt_tokens(
    counters: Mapping[str, float],
) -> tuple[float | None, float | None, float | None, float | None]:
    """(received, computed, cached, of these transferred from elsewhere)."""
    received, computed, cached = (counters.get(name) for name in ("prompt", "computed", "cached"))
    external = counters.get("external")
    queries, hits = counters.get("queries"), counters.get("hits")
    if cached is None and computed is None and received is not None and queries and hits is not None:
        # Preempted requests ask the cache again: its share is right, its count is not.
        transferred = counters.get("external_hits", 0.0)
        external = received * min(transferred / queries, 1.0) if transferred else external
        cached = received * min((hits + transferred) / queries, 1.0)
    if computed is None and received is not None and cached is not None:
        computed = max(received - cached, 0.0)
    if cached is None and received is not None and computed is not None:
        cached = max(received - computed, 0.0)
    return received, computed, cached, external


def _times(histograms: Mapping[str, Histogram]) -> tuple[dict[str, Times], list[str]]:
    found, doubts = {}, []
    for name, own in histograms.items():
        if own.mean is None:
            continue
        doubt = implausible(own, LEAST_S if name in ("ttft", "e2e") else 0.0)
        if doubt and name in SECONDS:
            doubts.append(f"the histogram of {name} is implausible, no quantile is shown: {doubt}")
        read = [(share, quantile(own, share)) for share in SHARES] if not doubt else []
        found[name] = Times(own.count, own.mean, tuple((share, each) for share, each in read if each))
    return found, doubts


def _total(own: Times | None) -> float | None:
    return own.count * own.mean if own else None


def _length(own: Times | None, tokens: float | None, requests: float | None) -> float | None:
    return own.mean if own else ratio(tokens, requests)


def _decoding_s(own: Quantities) -> float | None:
    """Sequence-seconds in decode: from the first token of each to its last."""
    itl, decode, inference = (own.histograms.get(name) for name in ("itl", "decode", "inference"))
    if own.engine.name == "trtllm" and decode:  # told at a request's end; it has no ITL
        return decode.sum
    if itl:
        return itl.sum
    if "generating_s" in own.counters:
        return own.counters["generating_s"]
    batch = own.histograms.get("batch")
    if inference and batch and batch.mean and "prefill_s" in own.counters:
        # Each request of a prefill batch waits for all of it.
        return max(inference.sum - own.counters["prefill_s"] * batch.mean, 0.0)
    return decode.sum if decode else None


def _tpot(
    own: Quantities, decoding_s: float | None, generated: float | None, first: float | None
) -> float | None:
    """Mean over tokens after each request's first."""
    itl = own.histograms.get("itl")
    if "generating_s" in own.counters:
        return ratio(decoding_s, generated)
    if own.engine.name == "tgi":
        return None  # its mean time of a token has prefill in it
    later = generated - first if generated is not None and first is not None else 0.0
    if itl and (not own.engine.itl_by_event or later < ONE_TOKEN * itl.count):
        return itl.mean
    return ratio(decoding_s, later)


def _steps(
    own: Quantities, generated: float | None, first: float | None
) -> tuple[float | None, float | None]:
    """(decode passes, sequences of each)."""
    counters, decoding = own.counters, own.gauges.get("decoding")
    if "passes" in counters:  # all of them; busy slots are of those, too
        return None, decoding or None
    steps = counters.get("decode_passes")
    if not steps or generated is None or first is None or generated <= first:
        return steps or None, decoding or None
    return steps, (generated - first) / steps / (_speculation(own)[1] or 1.0)


def _speculation(own: Quantities) -> tuple[float | None, float | None]:
    """(accepted of the drafted tokens, tokens of a sequence's step); None where nothing was drafted."""
    drafts = own.counters.get("drafts", 0.0)
    if drafts > 0:
        accepted = own.counters.get("accepted_tokens", 0.0)
        return ratio(accepted, own.counters.get("draft_tokens")), 1 + accepted / drafts
    length = own.gauges.get("accepted_length", 0.0)
    return (own.gauges.get("acceptance") or None, length) if length > 1 else (None, None)


def _busy(busy_s: float | None, idle_s: float | None, covered: float | None) -> float | None:
    if busy_s is not None:
        return ratio(busy_s, covered)
    if idle_s is not None and covered:
        return max(0.0, 1 - idle_s / covered)
    return None


def _few(requests: float | None, generated: float | None) -> list[str]:
    if requests is not None and requests < FEW and (requests or generated):
        return [f"only {requests:.0f} requests finished in the window: a longer one tells more"]
    return []
