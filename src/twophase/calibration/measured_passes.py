"""Measured passes from files: an engine's pass records, or a meter's two curves."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twophase.calibration.fitting import Measured
from twophase.errors import InputError, damaged, require_regular

PROMPTS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES, CONTEXTS = (1, 2, 4, 8, 16, 32), (128, 512, 2048, 8192)
MOST = 1_000_000  # passes
MOST_ROWS, LONGEST = 1 << 22, 100_000_000  # of a pass, and tokens of a context
LONGEST_S = 86_400.0


def read_passes(path: Path) -> list[Measured]:
    """JSONL or Parquet with columns shape [[new, context] of each span], seconds, and perhaps logit_rows; or
    the JSON document of `twophase bench` with both curves. InputError names the line that is wrong."""
    require_regular(path)
    with damaged(path):
        if path.suffix == ".parquet":
            rows = _parquet(path)
            return [_measured(row, f"{path} row {i}") for i, row in enumerate(rows, 1)]
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".jsonl" and text.lstrip().startswith("{"):
            try:
                whole = json.loads(text)
            except json.JSONDecodeError:
                whole = None  # one object a line
            if whole is not None and "fit" in whole:
                return list(_of_curves(whole, path))
        lines = enumerate(text.splitlines(), 1)
        return [_measured(_line(line, path, i), f"{path} line {i}") for i, line in lines if line.strip()]


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import polars
    except ModuleNotFoundError:
        raise InputError(f"{path}: Parquet needs polars: install the extra meter, or give JSONL") from None
    try:
        return polars.read_parquet(path, n_rows=MOST).to_dicts()
    except polars.exceptions.PolarsError as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from None


def _line(line: str, path: Path, at: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} line {at} is no JSON: {error.msg}") from None


def _measured(row: Any, where: str) -> Measured:
    try:
        shape = np.array([[span[0], span[1]] for span in row["shape"]], np.int64).reshape(-1, 2)
        logits = row.get("logit_rows")
        seconds = float(row["seconds"])
        count = len(shape) if logits is None else int(np.sum(logits))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: a pass has shape [[new, context] of each span] and seconds, and perhaps logit_rows"
        ) from None
    return _sound(Measured(shape, count, seconds), where)


def _sound(own: Measured, where: str) -> Measured:
    new, context = own.shape[:, 0], own.shape[:, 1]
    if not len(own.shape) or (new < 1).any() or (context < 0).any() or not 0 < own.seconds < LONGEST_S:
        raise InputError(
            f"{where}: every span has new rows, no context below 0, and a pass takes some time, below a day"
        )
    if (
        len(own.shape) > MOST_ROWS
        or new.max() > MOST_ROWS
        or new.sum() > MOST_ROWS
        or context.max() > LONGEST
    ):
        raise InputError(
            f"{where}: a pass has {MOST_ROWS:,} rows at most, on contexts of {LONGEST:,} at most"
        )
    if not 0 <= own.logits <= new.sum():
        raise InputError(f"{where}: logit_rows can't be below 0, nor more than the pass has rows")
    return own


def _of_curves(whole: Mapping[str, Any], path: Path) -> Iterator[Measured]:
    """TTFT of n tokens a + b·n + c·n²; ITL of a batch a + b·batch + c·batch·context, as passes."""
    fit = whole["fit"]
    if not fit.get("ttft") or not fit.get("itl"):
        raise InputError(f"{path} lacks one of the two curves: `twophase bench` fits TTFT and ITL")
    ttft, itl = fit["ttft"], fit["itl"]
    a, b, c = (_value(ttft[name]) for name in ("overhead_s", "linear_s_per_token", "quadratic_s_per_token2"))
    last = int(ttft.get("to_tokens") or PROMPTS[-1])
    for n in PROMPTS:
        if n <= last:
            yield _sound(
                Measured(np.array([[n, 0]]), 1, a + b * n + c * n * n), f"{path}: TTFT of {n} tokens"
            )
    a, b, c = (_value(itl[name]) for name in ("pass_s", "sequence_s", "context_s_per_token"))
    for batch in BATCHES:
        for context in CONTEXTS:
            shape = np.array([[1, context]] * batch)
            seconds = a + b * batch + c * batch * context
            yield _sound(Measured(shape, batch, seconds), f"{path}: ITL of {batch} sequences")


def _value(entry: Any) -> float:
    return float(entry["value"] if isinstance(entry, dict) else entry)
