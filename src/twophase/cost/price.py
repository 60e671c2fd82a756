"""What single passes cost, for an engine or a simulator that asks after each."""

from collections.abc import Callable

import numpy as np

from twophase.cost.deployment import Deployment, device_stages
from twophase.cost.operators import stage_operators, total
from twophase.cost.pass_ import Pass
from twophase.cost.pass_seconds import pass_cost
from twophase.cost.pass_times import PassTimes
from twophase.cost.spans import Spans


def spans_of(pass_: Pass) -> Spans:
    """One pass, without leading axes."""
    return Spans(
        new=np.array([span.new for span in pass_.spans], np.int64),
        context=np.array([span.context for span in pass_.spans], np.int64),
        count=np.ones(len(pass_.spans), np.int64),
        logits=np.array([span.logit_rows for span in pass_.spans], np.int64),
    )


def price_of(own: Deployment) -> Callable[[Pass], tuple[float, float]]:
    """(FLOPs, compulsory bytes) of a model's passes on one device."""
    (stage,) = device_stages(own)

    def price(pass_: Pass) -> tuple[float, float]:
        work = total(stage_operators(own, stage, spans_of(pass_)))
        return float(work.total_flops), float(work.bytes)

    return price


def cost_of(times: PassTimes, pass_: Pass) -> tuple[float, float, float]:
    """(seconds, FLOPs, bytes) of one pass, as these PassTimes say."""
    spans = spans_of(pass_)
    seconds, flops, bytes_ = pass_cost(times, spans.new, spans.context, int(spans.logits.sum()))
    return float(seconds), float(flops), float(bytes_)
