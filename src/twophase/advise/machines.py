"""Which other accelerator of the catalogue has more of one resource, and as little more of the other."""

from twophase.cost.parallel import Plan, resident_bytes
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import accelerators
from twophase.model.catalogue import Model

MORE = 1.25  # times as much, to be worth a move
ROOM = 1.1  # times the weights, that a device must have


def with_more(own: Accelerator, what: str, model: Model, plan: Plan) -> Accelerator | None:
    """what: flops or bandwidth. Of the same vendor, with a price where `own` has one; None: there is none."""

    def ratios(other: Accelerator) -> tuple[float, float]:
        flops, bandwidth = other.peak_flops / own.peak_flops, other.bandwidth / own.bandwidth
        return (flops, bandwidth) if what == "flops" else (bandwidth, flops)

    def suits(other: Accelerator) -> bool:
        more, rest = ratios(other)
        priced = own.price_per_hour is None or other.price_per_hour is not None
        roomy = other.memory_bytes >= min(own.memory_bytes, ROOM * weights)
        return other.vendor == own.vendor and more >= MORE and rest >= 0.9 and priced and roomy

    weights = max(resident_bytes(model.spec, model.storage, plan))
    found = [each for each in accelerators().values() if suits(each)]
    # the purest first, so that the gain is that of the one resource; then the least that suffices
    return min(found, key=lambda each: (round(ratios(each)[1], 1), ratios(each)[0]), default=None)
