"""Prefill's share from ITL alone: what a token takes beyond a step that only decodes is others' prefill."""

from twophase.counters.histogram import Histogram, implausible, quantile
from twophase.counters.picture import Picture
from twophase.counters.share import Range, Share

EARLIEST, USUAL = 0.10, 0.25  # quantiles of ITL between which a step that only decodes lies


def interference(own: Picture, itl: Histogram | None) -> Share | str:
    """Of the time in which anyone decodes: prefill while nobody does is not seen, so it may be more."""
    mean = own.tpot_mean_s
    if itl is None or not itl.buckets or not mean:
        return f"{own.title} has no histogram of ITL to tell interference by"
    if own.tokens_per_step and own.tokens_per_step > 1:
        mean = itl.mean or mean  # of deliveries, as the buckets are
    early, usual = quantile(itl, EARLIEST), quantile(itl, USUAL)
    if early is None or usual is None or usual.high is None or implausible(itl, 0.0):
        return "the histogram of ITL can't be read"
    alone = Range(early.low, usual.value, usual.high)
    shares = Range(*(min(max(1 - each / mean, 0.0), 1.0) for each in (alone.high, alone.mid, alone.low)))
    why = (
        f"mean ITL {mean * 1e3:.3g} ms, a step that only decodes {alone.mid * 1e3:.3g} ms (p25; its bucket "
        f"and p10's allow {alone.low * 1e3:.3g} to {alone.high * 1e3:.3g} ms): "
        f"{(mean - alone.mid) * 1e3:.3g} ms of each token are others' prefill",
        "of the time in which anyone decodes; prefill while nobody does comes on top",
    )
    return Share("interference", shares, None, None, why)
