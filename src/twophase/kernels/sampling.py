"""One token a row drawn from float32 logits: from those that top-k, top-p and min-p leave.

Rows lie `stride` apart in the flat array `logits` and are looked at in blocks of 256. The blocks' largest
logits tell which blocks can hold anything of interest, so most rows are read once or twice, and nothing is
sorted but a few values. Every limit comes down to a floor: logits of at least so much stay, ties too.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import (
    I16,
    LANES,
    add,
    constant,
    exp,
    lanes,
    largest,
    load,
    mul,
    next_task,
    splat,
    store,
    sub,
    total,
)
from twophase.kernels.threads import share_out

BLOCK = 256
UNROLL = 4  # largest values kept side by side, which hides the latency of comparing
BOTTOM = -32.0  # e^-32 of the largest weight is none: a whole vocabulary of it is less than rounding
HEADS = (32, 256)  # among so many the end of top-p is looked for first: most models are sure of themselves
BINS_A_NAT, BINS = 64, 2048  # of a histogram of probability mass, where one is not

# What a row asks for. inverse_temperature 0: nothing, it is left as it is.
DRAW = np.dtype(
    [
        ("inverse_temperature", np.float32),
        ("top_k", np.int64),  # 0: all
        ("top_p", np.float64),
        ("min_p", np.float64),
        ("uniform", np.float64),  # in [0, 1): where in the cumulative distribution the token lies
    ]
)


@intrinsic
def larger(typingctx, x, y):  # type: ignore[no-untyped-def]
    """The larger of x and y, lane by lane; NaN where either is."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        x_, y_ = args
        taken = b.or_(b.fcmp_ordered(">", x_, y_), b.fcmp_unordered("uno", x_, x_))
        return b.select(taken, x_, y_)

    return lanes(lanes, lanes), generate


@intrinsic
def has_nan(typingctx, value):  # type: ignore[no-untyped-def]
    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return b.icmp_unsigned("!=", b.bitcast(b.fcmp_unordered("uno", args[0], args[0]), I16), I16(0))

    return types.boolean(lanes), generate


@intrinsic
def zero_below(typingctx, value, x, bound):  # type: ignore[no-untyped-def]
    """value where x >= bound, else 0."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return b.select(b.fcmp_ordered(">=", args[1], args[2]), args[0], constant(0.0))

    return lanes(lanes, lanes, lanes), generate


@intrinsic
def any_between(typingctx, value, lower, upper):  # type: ignore[no-untyped-def]
    """Whether any lane lies between the bounds, inclusive."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        inside = b.and_(b.fcmp_ordered(">=", args[0], args[1]), b.fcmp_ordered("<=", args[0], args[2]))
        return b.icmp_unsigned("!=", b.bitcast(inside, I16), I16(0))

    return types.boolean(lanes, lanes, lanes), generate


@kernel
def largest_of(logits: Any, first: int, last: int) -> Any:
    """The largest of logits[first : last], NaN where one is NaN."""
    nothing = splat(np.float32(-np.inf))
    a, b, c, d = nothing, nothing, nothing, nothing
    i = first
    while i + UNROLL * LANES <= last:
        a = larger(load(logits, i), a)
        b = larger(load(logits, i + LANES), b)
        c = larger(load(logits, i + 2 * LANES), c)
        d = larger(load(logits, i + 3 * LANES), d)
        i += UNROLL * LANES
    while i + LANES <= last:
        a = larger(load(logits, i), a)
        i += LANES
    every = larger(larger(a, b), larger(c, d))
    found = np.float32(np.nan) if has_nan(every) else largest(every)
    for j in range(i, last):
        if logits[j] > found or np.isnan(logits[j]):
            found = logits[j]
    return found


@kernel
def weigh(logits: Any, first: int, last: int, floor: Any, best: Any, slope: Any, weights: Any) -> Any:
    """weights[: last - first] = e^(slope · (logit - best)), 0 below the floor or e^BOTTOM; their sum.

    weights: [256] float32.
    """
    bottom, slopes, top, least = splat(np.float32(BOTTOM)), splat(slope), splat(best), splat(floor)
    whole = (last - first) // LANES * LANES
    if first + whole < last:
        for i in range(LANES):
            at = first + whole + i
            weights[whole + i] = logits[at] if at < last else np.float32(-np.inf)
    sums = splat(np.float32(0))
    for i in range(0, last - first, LANES):
        logit = load(logits, first + i) if i < whole else load(weights, i)
        x = mul(sub(logit, top), slopes)
        weight = zero_below(zero_below(exp(x), x, bottom), logit, least)
        store(weights, i, weight)
        sums = add(sums, weight)
    return total(sums)


@kernel
def maxima_of(first: int, last: int, logits: Any, stride: int, vocabulary: int, maxima: Any) -> None:
    blocks = maxima.shape[1]
    for each in range(first, last):
        row, start = each // blocks, each % blocks * BLOCK
        end = min(start + BLOCK, vocabulary)
        maxima[row, each % blocks] = largest_of(logits, row * stride + start, row * stride + end)


@kernel
def block_maxima(logits: Any, stride: int, vocabulary: int, maxima: Any, threads: int) -> None:
    """maxima: [rows, blocks], the largest logit of each block; NaN where one is NaN."""
    share_out(maxima_of, maxima.size, threads, (logits, stride, vocabulary, maxima))


@kernel
def sums_of(
    first: int, last: int, logits: Any, stride: int, vocabulary: int, maxima: Any, best: Any, slopes: Any,
    sums: Any,
) -> None:  # fmt: skip
    blocks = sums.shape[1]
    weights = np.empty(BLOCK, np.float32)
    for each in range(first, last):
        row, block = each // blocks, each % blocks
        slope, at = slopes[row], row * stride
        if slope > 0 and (maxima[row, block] - best[row]) * slope >= BOTTOM:
            start = at + block * BLOCK
            end = min(start + BLOCK, at + vocabulary)
            sums[row, block] = weigh(logits, start, end, np.float32(-np.inf), best[row], slope, weights)


@kernel
def block_sums(
    logits: Any, stride: int, vocabulary: int, maxima: Any, best: Any, slopes: Any, sums: Any, threads: int
) -> None:
    """sums: [rows, blocks], of each block's weights, all 0 before. slopes: [rows], 1 / temperature, or 0 to
    skip a row."""
    share_out(sums_of, sums.size, threads, (logits, stride, vocabulary, maxima, best, slopes, sums))


@kernel
def value_at(values: Any, weights: Any, before: float, target: float) -> Any:
    """The value at which `before` and the weights, from the largest value's, reach the target.

    -inf where all of them don't. Shuffles both arrays.
    """
    first, last = 0, values.size
    while first < last:
        a, b, c = values[first], values[(first + last) // 2], values[last - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        larger_end, equal_end, larger_mass, equal_mass = first, first, 0.0, 0.0
        for i in range(first, last):
            value, weight = values[i], weights[i]
            if value >= pivot:
                values[i], weights[i] = values[equal_end], weights[equal_end]
                values[equal_end], weights[equal_end] = value, weight
                if value > pivot:
                    values[equal_end], weights[equal_end] = values[larger_end], weights[larger_end]
                    values[larger_end], weights[larger_end] = value, weight
                    larger_end += 1
                    larger_mass += weight
                else:
                    equal_mass += weight
                equal_end += 1
        if before + larger_mass >= target:
            last = larger_end
        elif before + larger_mass + equal_mass >= target:
            return pivot
        else:
            before += larger_mass + equal_mass
            first = equal_end
    return np.float32(-np.inf)


@kernel
def kth_largest(values: Any, k: int) -> Any:
    """-inf where there are fewer than k."""
    return value_at(values.copy(), np.ones(values.size), 0.0, np.float64(k))


@kernel
def gather(logits: Any, at: int, vocabulary: int, maxima: Any, floor: Any, values: Any) -> int:
    """The row's logits of at least `floor`, in order; how many. values: [vocabulary]."""
    size, bound, open_ = 0, splat(floor), splat(np.float32(np.inf))
    for block in range(maxima.size):
        if maxima[block] >= floor:
            first = at + block * BLOCK
            last = min(first + BLOCK, at + vocabulary)
            for i in range(first, last, LANES):
                if i + LANES > last or any_between(load(logits, i), bound, open_):
                    for j in range(i, min(i + LANES, last)):
                        if logits[j] >= floor:
                            values[size] = logits[j]
                            size += 1
    return size


@kernel
def weight_of(logit: Any, best: Any, slope: Any) -> float:
    return np.exp(np.float64(logit - best) * np.float64(slope))  # type: ignore[no-any-return]


@kernel
def nucleus_end(values: Any, mass: float, target: float, best: Any, slope: Any) -> Any:
    """The value, from the largest, whose weight brings `mass` to the target, or -inf. Shuffles the values."""
    weights = np.empty(values.size)
    for i in range(values.size):
        weights[i] = weight_of(values[i], best, slope)
    return value_at(values, weights, mass, target)


@kernel
def bin_of(logit: Any, best: Any, slope: Any) -> Any:
    return np.int32(min((best - logit) * slope * np.float32(BINS_A_NAT), np.float32(BINS - 1)))


@kernel
def gather_bin(
    logits: Any, at: int, vocabulary: int, maxima: Any, bin_: int, best: Any, slope: Any, values: Any
) -> int:
    """The row's logits in a bin, in order; how many. values: [vocabulary]."""
    width = np.float32(1) / (slope * np.float32(BINS_A_NAT))
    # A tenth of a bin wider than it is, so that rounding leaves none out that belongs there.
    low = best - width * np.float32(bin_ + 1.1) if bin_ < BINS - 1 else np.float32(-np.inf)
    size, lower, upper = 0, splat(low), splat(best - width * np.float32(bin_ - 0.1))
    for block in range(maxima.size):
        if maxima[block] >= low:
            first = at + block * BLOCK
            last = min(first + BLOCK, at + vocabulary)
            for i in range(first, last, LANES):
                if i + LANES > last or any_between(load(logits, i), lower, upper):
                    for j in range(i, min(i + LANES, last)):
                        if bin_of(logits[j], best, slope) == bin_:
                            values[size] = logits[j]
                            size += 1
    return size


@kernel
def wide_nucleus_end(
    logits: Any, at: int, vocabulary: int, maxima: Any, target: float, best: Any, slope: Any, values: Any
) -> Any:
    """The same over the whole row: a histogram of mass tells the bin in which to look."""
    masses, bins = np.zeros(BINS), np.empty(BLOCK, np.int32)
    weights = np.empty(BLOCK, np.float32)
    for block in range(maxima.size):
        first = at + block * BLOCK
        last = min(first + BLOCK, at + vocabulary)
        weigh(logits, first, last, np.float32(-np.inf), best, slope, weights)
        for i in range(last - first):
            bins[i] = bin_of(logits[first + i], best, slope)
        for i in range(last - first):
            masses[bins[i]] += weights[i]
    bin_, before = 0, 0.0
    while bin_ < BINS - 1 and before + masses[bin_] < target:
        before += masses[bin_]
        bin_ += 1
    size = gather_bin(logits, at, vocabulary, maxima, bin_, best, slope, values)
    return nucleus_end(values[:size], before, target, best, slope)


@kernel
def floor_of(
    logits: Any, at: int, vocabulary: int, maxima: Any, sums: Any, best: Any, draw: Any, values: Any
) -> Any:
    """The least logit that top-k, of them top-p, of them min-p leave; -inf where they leave all."""
    floor, slope = np.float32(-np.inf), draw.inverse_temperature
    if draw.top_k > 0:
        size = gather(logits, at, vocabulary, maxima, kth_largest(maxima, draw.top_k), values)
        floor = kth_largest(values[:size], draw.top_k)
        if draw.top_p < 1:
            mass, kept = 0.0, 0
            for i in range(size):
                if values[i] >= floor:
                    mass += weight_of(values[i], best, slope)
                    values[kept] = values[i]
                    kept += 1
            floor = max(floor, nucleus_end(values[:kept], 0.0, draw.top_p * mass, best, slope))
    elif draw.top_p < 1:
        mass = 0.0
        for block in range(sums.size):
            mass += sums[block]
        target = draw.top_p * mass
        for head in HEADS:
            if floor == -np.inf and head <= maxima.size:
                size = gather(logits, at, vocabulary, maxima, kth_largest(maxima, head), values)
                floor = nucleus_end(values[:size], 0.0, target, best, slope)
        if floor == -np.inf:
            floor = wide_nucleus_end(logits, at, vocabulary, maxima, target, best, slope, values)
    if draw.min_p > 0:
        floor = max(floor, np.float32(best + np.log(draw.min_p) / slope))
    return floor


@kernel
def draw_above(
    logits: Any, at: int, vocabulary: int, maxima: Any, sums: Any, floor: Any, best: Any, draw: Any
) -> int:
    """The id at which the cumulative distribution over ids, of logits of at least `floor`, passes `uniform`.

    sums: [blocks], right where the floor is -inf, else filled here.
    """
    weights, slope, mass = np.empty(BLOCK, np.float32), draw.inverse_temperature, 0.0
    for block in range(sums.size):
        if floor > -np.inf:
            sums[block] = 0
            if maxima[block] >= floor:
                first = block * BLOCK
                last = min(first + BLOCK, vocabulary)
                sums[block] = weigh(logits, at + first, at + last, floor, best, slope, weights)
        mass += sums[block]
    target, block, before, reached = draw.uniform * mass, 0, 0.0, 0.0
    for each in range(sums.size):
        if sums[each] > 0:
            block, before = each, reached
            reached += sums[each]
            if reached > target:
                break
    first = block * BLOCK
    last = min(first + BLOCK, vocabulary)
    weigh(logits, at + first, at + last, floor, best, slope, weights)
    token = first
    for i in range(first, last):  # where rounding leaves something over, the last id that has weight
        if weights[i - first] > 0:
            token = i
            before += weights[i - first]
            if before > target:
                break
    return token


@kernel
def draw_some(
    _: int, __: int, logits: Any, stride: int, vocabulary: int, maxima: Any, sums: Any, best: Any, draws: Any,
    chosen: Any, counter: Any,
) -> None:  # fmt: skip
    """Take rows until none is left."""
    values = np.empty(vocabulary, np.float32)
    row = next_task(counter)
    while row < chosen.size:
        draw, at = draws[row], row * stride
        if draw.inverse_temperature > 0:
            floor = floor_of(logits, at, vocabulary, maxima[row], sums[row], best[row], draw, values)
            chosen[row] = draw_above(logits, at, vocabulary, maxima[row], sums[row], floor, best[row], draw)
        row = next_task(counter)


@kernel
def draw_tokens(
    logits: Any, stride: int, vocabulary: int, maxima: Any, sums: Any, best: Any, draws: Any, chosen: Any,
    counter: Any, threads: int,
) -> None:  # fmt: skip
    """chosen: [rows], a token for each that draws.

    best: [rows], the largest of maxima, finite; draws: [rows] of DRAW;
    sums: [rows, blocks], needed where a row draws by top-p alone or without limits. counter: [1], 0.
    """
    own = (logits, stride, vocabulary, maxima, sums, best, draws, chosen, counter)
    share_out(draw_some, threads, threads, own)


@kernel
def likeliest(logits: Any, at: int, vocabulary: int, maxima: Any, ids: Any) -> None:
    """Fill `ids` with the likeliest tokens of the row at `at`, in order of their ids."""
    values = np.empty(vocabulary, np.float32)
    size = gather(logits, at, vocabulary, maxima, kth_largest(maxima, ids.size), values)
    least = kth_largest(values[:size], ids.size)
    ties = ids.size
    for i in range(size):
        ties -= values[i] > least
    count = 0
    for block in range(maxima.size):
        if maxima[block] >= least:
            for i in range(block * BLOCK, min((block + 1) * BLOCK, vocabulary)):
                tied = logits[at + i] == least
                if logits[at + i] > least or (tied and ties > 0):
                    ids[count] = i
                    count += 1
                    ties -= tied
