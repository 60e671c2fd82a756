"""Recorded arrivals: traces of Azure, BurstGPT, Mooncake and Qwen, tables of ours, a run's own requests."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError, require_regular
from twophase.workload.rows import Rows, read_rows
from twophase.workload.seeded import generator
from twophase.workload.workload import LATEST_S, Blocks, Floats, Ints, Workload

MOONCAKE_BLOCK, QWEN_BLOCK = 512, 16  # tokens that one of their hash ids stands for
LARGEST = 1e9
SHOWN_PLACES = 5
OFFSET = re.compile(r"\s*(?:Z|([+-])(\d\d):?(\d\d))$")  # from UTC, behind a time of day
TIMES = ("arrival_s", "due_s", "timestamp", "arrived_at", "time")
PROMPTS = (
    *("prompt_tokens", "input_tokens", "contexttokens", "request tokens", "input_length"),
    "num_prefill_tokens",
)
OUTPUTS = ("output_tokens", "generatedtokens", "response tokens", "output_length", "num_decode_tokens")
NO_OBJECT = "each line must be a JSON object, as {...}"
GO_ON = " (--skip-bad goes on without)"
WANTED = "give Azure's or BurstGPT's CSV, Mooncake's JSONL, or arrival_s, prompt_tokens, output_tokens"


def read_trace(path: Path, most: int | None = None, speed: float = 1.0, skip_bad: bool = False) -> Workload:
    """The requests of a trace in order of arrival, the first at zero; `speed` times as fast as recorded.

    InputError names the first line that is malformed; with `skip_bad` they are left out, and counted.
    """
    source = source_of(path)
    rows = read_rows(source, most)
    at, prompt, output, notes = lengths_and_times(source, rows, skip_bad, timed=True)
    kept = np.flatnonzero((prompt >= 1) & (output >= 1))
    if not kept.size:
        raise InputError(f"{source} holds no request; {WANTED}")
    without = int(np.count_nonzero((prompt < 1) | (output < 1)))
    if without:
        said = (
            "request without prompt or answer is" if without == 1 else "requests without prompt or answer are"
        )
        notes = (*notes, f"{without:,} {said} left out")
    kept = kept[np.argsort(at[kept], kind="stable")]
    times = (at[kept] - at[kept[0]]) / speed
    if not times[-1] <= LATEST_S:
        late = int(kept[-1])
        raise InputError(
            f"{source}, {rows.unit} {rows.places[late]}: at that speed it comes {times[-1]:.3g} s after the "
            f"first request; a load may last {LATEST_S:g} s"
        )
    steps = steps_of(times)
    if steps:
        notes = (*notes, f"the trace's times come in steps of about {steps:.3g} s, many requests at once")
    return Workload(
        arrival_s=times,
        prompt_tokens=prompt[kept].astype(np.int64),
        output_tokens=output[kept].astype(np.int64),
        content=content_of(rows, kept),
        notes=notes,
    )


def source_of(path: Path) -> Path:
    """The file that holds the requests."""
    if not os.path.isdir(path):
        require_regular(path)
        return path
    source = path / "requests.parquet"
    if not source.is_file():
        raise InputError(
            f"{path} is a directory without requests.parquet: give a trace, or a run that was kept"
        )
    return source


def read_lengths(path: Path, skip_bad: bool = False) -> tuple[Ints, Ints]:
    """Prompt and output tokens of a trace's rows, which belong together; times are not needed."""
    require_regular(path)
    _, prompt, output, _ = lengths_and_times(path, read_rows(path, None), skip_bad, timed=False)
    kept = (prompt >= 1) & (output >= 1)
    if not kept.any():
        raise InputError(f"{path} holds no request; {WANTED}")
    return prompt[kept].astype(np.int64), output[kept].astype(np.int64)


def lengths_and_times(
    source: Path, rows: Rows, skip_bad: bool, *, timed: bool
) -> tuple[Floats, Floats, Floats, tuple[str, ...]]:
    """(times, prompts, outputs, notes); a skipped row is not a number in all of them."""
    found = [rows.first_of(names) for names in (TIMES, PROMPTS, OUTPUTS)]
    at, prompt, output = found
    if rows.places and (prompt is None or output is None or (timed and at is None)):
        if 0 in rows.no_objects:
            raise InputError(f"{source}, {rows.unit} {rows.places[0]}: {NO_OBJECT}; {WANTED}")
        lacking = "arrival times" if timed and at is None else "prompt and output tokens"
        raise InputError(f"{source} has no {lacking}; {WANTED}")
    if not timed or at is None or prompt is None or output is None:
        at = at if timed and at is not None else ("", [0.0] * len(rows.places))
        prompt, output = prompt or ("", []), output or ("", [])
    times = seconds_of(at[1]) / (1e3 if in_milliseconds(rows, at[0]) else 1)
    tokens = [np.rint(numbers_of(each)) for each in (prompt[1], output[1])]
    bad = ~(np.isfinite(times) & (times >= 0))
    for each in tokens:
        bad |= ~((each >= 0) & (each <= LARGEST))
    hashes = rows.columns.get("hash_ids") if timed else None
    if hashes is not None:
        bad |= [not are_ids(each) for each in hashes]
    if not bad.any():
        return times, tokens[0], tokens[1], ()
    where = [rows.places[each] for each in np.flatnonzero(bad).tolist()]
    if not skip_bad:
        first = int(np.flatnonzero(bad)[0])
        why = NO_OBJECT if first in rows.no_objects else wrong_with(first, at, prompt, output, hashes)
        raise InputError(f"{source}, {rows.unit} {where[0]}: {why}{GO_ON}")
    places = ", ".join(map(str, where[:SHOWN_PLACES])) + (" ..." if len(where) > SHOWN_PLACES else "")
    for each in (*tokens, times):
        each[bad] = np.nan
    skipped = f"{rows.unit} is" if len(where) == 1 else f"{rows.unit}s are"
    return times, tokens[0], tokens[1], (f"{len(where):,} bad {skipped} skipped: {places}",)


def wrong_with(
    row: int,
    at: tuple[str, Sequence[Any]],
    prompt: tuple[str, Sequence[Any]],
    output: tuple[str, Sequence[Any]],
    hashes: Sequence[Any] | None,
) -> str:
    if hashes is not None and not are_ids(hashes[row]):
        said, wanted = f"hash_ids {hashes[row]!r:.40}", "a list of whole numbers of 64 bits is wanted"
    else:
        said = ", ".join(f"{name} {values[row]!r:.40}" for name, values in (at, prompt, output) if name)
        counts = "two counts of tokens are wanted"
        wanted = f"an arrival time from 0 on and {counts}" if at[0] else counts
    return f"{said}: {wanted}"


def are_ids(value: Any) -> bool:
    """Hash ids of one row, which may lack them."""
    if value is None or value in ("", []):
        return True
    return (
        isinstance(value, list) and set(map(type, value)) == {int} and fits(min(value)) and fits(max(value))
    )


def fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def numbers_of(column: Sequence[Any]) -> Floats:
    """Not a number where there is none."""
    try:
        return np.fromiter(map(float, column), np.float64, len(column))
    except (OverflowError, TypeError, ValueError):
        return np.array([_number(each) for each in column], np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return float("nan")


def seconds_of(column: Sequence[Any]) -> Floats:
    """Numbers, or dates with a time of day, of which Azure's have seven decimals."""
    if not column or not any("-" in str(each)[1:] and ":" in str(each) for each in column[:SHOWN_PLACES]):
        return numbers_of(column)
    texts = [str(each).strip() for each in column]
    ends = [OFFSET.search(each) for each in texts]
    texts = [each[: end.start()] if end else each for each, end in zip(texts, ends, strict=True)]
    try:
        dates = np.array(texts, "datetime64[ns]")
    except ValueError:
        dates = np.array([_date(each) for each in texts], "datetime64[ns]")
    seconds = dates.astype(np.int64) / 1e9 - np.array([_ahead_s(each) for each in ends])
    return np.where(np.isnat(dates), np.nan, seconds)


def _ahead_s(end: re.Match[str] | None) -> float:
    """Of UTC; not a number where no clock is so far ahead."""
    if end is None or end[1] is None:
        return 0.0
    if int(end[2]) > 23 or int(end[3]) > 59:
        return float("nan")
    return (60 * int(end[2]) + int(end[3])) * (60.0 if end[1] == "+" else -60.0)


def _date(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT", "ns")


def in_milliseconds(rows: Rows, column: str) -> bool:
    """Mooncake's; Qwen's have the same columns, and seconds."""
    return column == "timestamp" and "input_length" in rows.columns and "chat_id" not in rows.columns


def content_of(rows: Rows, kept: NDArray[np.intp]) -> Blocks | None:
    hashes = rows.columns.get("hash_ids")
    if hashes is None:
        return None
    mine = [hashes[each] or [] for each in kept.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in mine])]).astype(np.int64)
    ids = np.fromiter(chain.from_iterable(mine), np.int64, int(starts[-1]))
    return Blocks(ids, starts, QWEN_BLOCK if "chat_id" in rows.columns else MOONCAKE_BLOCK)


def steps_of(times: Floats) -> float:
    """Seconds between the moments at which requests come in heaps; 0 where they come one by one."""
    moments = np.unique(times)
    if len(times) < 20 or len(moments) * 3 > len(times) or len(moments) < 2:
        return 0.0
    return float(np.median(np.diff(moments)))


def spread_out(workload: Workload, seed: str) -> Workload:
    """Where times come in steps, each request at a random moment before the next step, order kept."""
    times = workload.arrival_s
    steps = steps_of(times)
    if not steps:
        return workload
    moments, which, heaps = np.unique(times, return_inverse=True, return_counts=True)
    length = np.append(np.diff(moments), steps)[which]
    moved = np.sort(times + length * generator(seed, "spread").random(len(times)))
    note = f"requests are spread over the trace's steps of about {steps:.3g} s, {heaps.max()} at most in one"
    return replace(workload, arrival_s=moved - moved[0], notes=(*workload.notes, note))
