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


def read_passes(path: Path) -> list[Measured]:
    """JSONL or Parquet with columns shape [[new, context] of each span], seconds, and perhaps logit_rows; or
    the JSON document of `twophase bench` with both curves. InputError names the line that is wrong."""
    require_regular(path)
    with damaged(path):
        if path.suffix == ".parquet":
            import polars

            rows = polars.read_parquet(path, n_rows=MOST).to_dicts()
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
    if not len(shape) or (shape[:, 0] < 1).any() or (shape[:, 1] < 0).any() or not 0 < seconds < np.inf:
        raise InputError(f"{where}: every span has new rows, no context below 0, and a pass takes some time")
    return Measured(shape, count, seconds)


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
            yield Measured(np.array([[n, 0]]), 1, a + b * n + c * n * n)
    a, b, c = (_value(itl[name]) for name in ("pass_s", "sequence_s", "context_s_per_token"))
    for batch in BATCHES:
        for context in CONTEXTS:
            shape = np.array([[1, context]] * batch)
            yield Measured(shape, batch, a + b * batch + c * batch * context)


def _value(entry: Any) -> float:
    return float(entry["value"] if isinstance(entry, dict) else entry)
