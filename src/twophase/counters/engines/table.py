"""The form of an engine's table: which of its names hold which quantity."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# What a counter can tell. Seconds are the accelerator's unless a name says otherwise.
COUNTERS = (
    *("prompt", "computed", "cached", "external", "generated", "requests", "aborted", "failed"),
    *("queries", "hits", "external_hits"),  # of prefix caches, in tokens
    *("preemptions", "wasted_tokens", "drafts", "draft_tokens", "accepted_tokens"),
    *("prefill_s", "decode_s", "idle_s", "prefill_floor_s", "decode_floor_s"),
    *("prefill_passes", "decode_passes", "passes"),
    "generating_s",  # sequence-seconds in decode
    *("flops", "read_bytes", "written_bytes"),
)
HISTOGRAMS = (
    *("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode", "inference"),  # seconds, of requests
    *("prompt_length", "output_length", "batch"),  # batch: sequences that a prefill pass takes in
)
GAUGES = (
    *("running", "waiting", "kv_usage", "kv_tokens", "context_tokens"),
    *("decoding", "acceptance", "accepted_length"),
)
MEANS = ("kv_usage", "decoding", "acceptance", "accepted_length")  # over ranks; other gauges are summed


@dataclass(frozen=True, slots=True)
class Named:
    """A name without the engine's prefix; only series with these labels, where any are given."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


Choice = tuple[Named, ...]  # added up, as far as they are there
Choices = tuple[Choice, ...]  # the first that is there counts


@dataclass(frozen=True, slots=True)
class Engine:
    name: str
    title: str
    prefixes: tuple[str, ...]  # OpenMetrics of some clients has "_" for their colon
    counters: Mapping[str, Choices]
    histograms: Mapping[str, tuple[Named, ...]] = field(default_factory=dict)  # the first that is there
    gauges: Mapping[str, tuple[Named, ...]] = field(default_factory=dict)
    # gauge: the counter since whose start it is a mean
    lifetime: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""  # a name's ending that no other engine has: what stands before it is the prefix
    itl_by_event: bool = False  # an observation for each delivery, whatever tokens it carries
    exact: str = ""  # whose seconds of each phase these are, and what they hold of the other's
    notes: tuple[str, ...] = ()


def one(name: str, **labels: str) -> Choices:
    return ((Named(name, labels),),)


def first_of(*names: str) -> Choices:
    return tuple((Named(each),) for each in names)


def histogram(*names: str) -> tuple[Named, ...]:
    return tuple(Named(each) for each in names)
