"""Pass times of engines as they serve: a handful of shares of the peaks, fitted to published serving points.

Where kernels' curves say what a kernel can do alone, these say what is left of it in an engine: one set for
all accelerators and models, so that they hold for those that were not in the fit. See served.toml.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curves import WIDER
from twophase.calibration.engines import find_engine, plain_name
from twophase.calibration.floors import floor_times
from twophase.calibration.served_device import Device, device_of
from twophase.cost import pass_times as columns
from twophase.cost.deployment import Deployment
from twophase.cost.pass_times import PassTimes
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
MOST = 0.95  # of a peak or a bandwidth, that anything reaches: assumed
SHARPNESS = 4.0  # of the knee between two roofs
ALL_TOKENS = 1e12  # that a row sees without a window
SOURCE = "engines serving, public points of ai-dynamo/aiconfigurator and InferenceX (Apache-2.0)"


class Shares(NamedTuple):
    """Shares of peak or bandwidth that engines reach, and seconds that they add, on every machine."""

    read16: float  # weights outside the experts, by the bits of their format
    read8: float
    read4: float
    flops16: float  # multiplies, by their operands' bits
    flops8: float
    flops4: float
    experts_read: float
    experts_read4: float  # of those with 4 bits, to the others
    experts_flops: float  # of what multiplies outside the experts reach
    experts_flops4: float
    tile: float  # rows to which each expert's are filled up, twice their mean waste
    skew: float  # rows touch as many experts as rows ** skew would if routing were uniform
    imbalance: float  # of the device with most to do, where experts are dealt out whole
    cache_read: float
    decode_pairs: float
    prompt_pairs: float
    recurrence: float
    reduced: float  # of the link
    reduction_s: float
    exchanged: float
    exchange_s: float
    moe_layer_s: float  # small kernels: router, sorting
    latent_layer_s: float
    recurrent_layer_s: float
    eager_s: float  # of the host, for each layer where no graph is replayed: passes with prompts last so long


class EngineTimes(NamedTuple):
    pass_s: float  # host work of a pass
    sequence_s: float  # and of each sequence in it
    layer_s: float  # kernels' starts and small kernels


@cache
def constants() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("served.toml").read_text(encoding="utf-8"))


def covers(accelerator: Accelerator) -> bool:
    """It was in the fit."""
    return accelerator.name in constants()["fitted_on"]


def interval(accelerator: Accelerator) -> tuple[float, float]:
    """Of four serving points in five: measured over predicted TPOT, most of which is passes, lies between."""
    low, high = constants()["interval"]["tpot"]
    stretch = 1.0 if covers(accelerator) else WIDER
    return low**stretch, high**stretch


def shares() -> Shares:
    return Shares(**constants()["shares"])


def serves(engine: str) -> bool:
    """It was in the fit."""
    return plain_name(engine) in constants()["engines"]


def engine_table(engine: str) -> Mapping[str, float]:
    known: Mapping[str, Mapping[str, float]] = constants()["engines"]
    return find_engine(engine, known)


def engine_times(engine: str) -> EngineTimes:
    own = engine_table(engine)
    return EngineTimes(*(own[name] for name in EngineTimes._fields))


def served_times(
    own: Deployment, accelerator: Accelerator, engine: str, max_rows: int, max_sequences: int
) -> PassTimes:
    """Of one data-parallel replica, never below the floor."""
    device, known, host = device_of(own, accelerator), shares(), engine_times(engine)
    floor = floor_times(own, accelerator, max_rows, max_sequences)
    rows = rows_s(device, known, host, np.arange(max_rows + 1.0))
    mixed = mixed_s(device, known, host, np.arange(max_rows + 1.0))
    logits = logits_s(device, known, host, np.arange(max_sequences + 1.0))
    mixers = floor.mixers.copy()
    mixers[:, columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1] = 0.0
    made = mixers_of(device, known)
    for row in mixers:
        window = row[columns.WINDOW] or ALL_TOKENS
        for each in made[made[:, columns.WINDOW] == window]:
            row[columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1] += each[
                columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1
            ]
    return floor._replace(
        rows_s=np.maximum(mixed, floor.rows_s),
        decode_rows_s=np.maximum(rows, floor.decode_rows_s),
        logits_s=np.maximum(logits, floor.logits_s),
        mixers=np.maximum(mixers, floor.mixers),
    )


def rows_s(own: Device, known: Shares, host: EngineTimes, rows: Floats) -> Floats:
    """What depends on the rows of a pass alone."""
    some = rows > 0
    reads = np.array([known.read16, known.read8, known.read4])[own.bits.astype(int)]
    flops = own.flop_s @ (1 / np.array([known.flops16, known.flops8, known.flops4]))
    total = _knee(own.read_s / reads * some, rows * flops)
    total = total + _experts_s(own, known, rows)
    small = host.layer_s * own.layers + known.moe_layer_s * own.moe_layers
    small = small + known.latent_layer_s * own.latent_layers + known.recurrent_layer_s * own.recurrent_layers
    sends = known.reduction_s * own.reductions + known.exchange_s * own.exchanged
    sent = own.reduced_s / known.reduced + own.exchanged_s / known.exchanged
    scanned = own.recurrence_s / known.recurrence
    return np.asarray(total + some * (host.pass_s + small + sends) + rows * (sent + scanned))


def dealt_s(own: Deployment, accelerator: Accelerator, rows: Floats) -> tuple[Floats, Floats]:
    """(experts, exchanges): of `rows_s`, what depends on all ranks' rows where experts are dealt out."""
    device, known = device_of(own, accelerator), shares()
    exchanges = (rows > 0) * known.exchange_s * device.exchanged
    exchanges = exchanges + rows * device.exchanged_s / known.exchanged
    return _experts_s(device, known, rows), np.asarray(exchanges)


def mixed_s(own: Device, known: Shares, host: EngineTimes, rows: Floats) -> Floats:
    """The same where prompts' rows are among them: the host starts each kernel, and may be the slower one."""
    kinds = own.layers + own.moe_layers + own.latent_layers + own.recurrent_layers
    return _knee(rows_s(own, known, host, rows), (rows > 0) * known.eager_s * kinds)


def _experts_s(own: Device, known: Shares, rows: Floats) -> Floats:
    meeting = rows * own.sharing
    touched = 1 - (1 - own.top_k / own.experts) ** np.where(meeting > 1, meeting**known.skew, meeting)
    filled = rows + touched * own.experts * known.tile / (2 * own.top_k * own.sharing)
    four = own.expert_bits == 2
    flops = own.expert_flop_s @ (1 / np.array([known.flops16, known.flops8, known.flops4]))
    flops = flops / (known.experts_flops * np.where(four, known.experts_flops4, 1.0))
    reads = np.minimum(known.experts_read * np.where(four, known.experts_read4, 1.0), MOST)
    busiest = np.where(own.dealt > 0, known.imbalance, 1.0)
    return np.asarray(busiest * _knee(own.expert_read_s * touched / reads, filled * flops))


def logits_s(own: Device, known: Shares, host: EngineTimes, rows: Floats) -> Floats:
    head = _knee(own.head_read_s / known.read16 * (rows > 0), rows * own.head_flop_s / known.flops16)
    return np.asarray(head + host.sequence_s * rows)


def mixers_of(own: Device, known: Shares) -> Floats:
    """As PassTimes has them, [..., kinds, columns]; the last kind is that of states and sees all."""
    kinds = own.windows.shape[-1]
    found = np.zeros((*own.windows.shape[:-1], kinds + 1, columns.COLUMNS))
    found[..., :kinds, columns.WINDOW] = np.minimum(own.windows, ALL_TOKENS)
    found[..., kinds, columns.WINDOW] = ALL_TOKENS
    found[..., :kinds, columns.PROMPT_PAIR_S] = own.pair_s / known.prompt_pairs
    found[..., :kinds, columns.PROMPT_TOKEN_S] = own.token_read_s / known.cache_read
    found[..., kinds, columns.PROMPT_TOKEN_S] = own.widened_s / known.flops16
    found[..., :kinds, columns.DECODE_TOKEN_S] = _knee(
        own.token_read_s / known.cache_read, own.absorbed_s / known.decode_pairs
    )
    found[..., kinds, columns.DECODE_SPAN_S] = own.state_read_s / known.cache_read
    return found


def _knee(one: Floats, other: Floats) -> Floats:
    """The longer of two times, or a little more where both are alike."""
    return np.asarray((one**SHARPNESS + other**SHARPNESS) ** (1 / SHARPNESS))
