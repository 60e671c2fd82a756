"""What one process measured of one level of load."""

from array import array
from dataclasses import dataclass, field

from twophase.meter.records import Reply


@dataclass(slots=True)
class Measured:
    """Picklable: workers send it home."""

    replies: list[Reply] = field(repr=False)  # Python 3.11's Runner spells its result out, twice
    began_s: float
    ended_s: float
    partial: str = ""  # why it ended before its plan
    lags: "array[float]" = field(default_factory=lambda: array("d"), repr=False)
    cpu_share: float = 0.0
    first_cohort: list[int] = field(default_factory=list)  # calls that filled the slots of a closed loop
    full_s: float | None = None  # when all slots had sent, or the arrivals' ramp was over
    dry_s: float | None = None  # when nothing was left to send
    notes: list[str] = field(default_factory=list)
