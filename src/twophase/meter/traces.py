"""Recorded arrivals: Azure's, BurstGPT's and Mooncake's traces, tables of ours, and a run's own requests."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from random import Random

from twophase.errors import InputError, damaged, require_regular
from twophase.meter.calibration import Calibration
from twophase.meter.prompts import Talk, Turn, stock_of
from twophase.meter.words import random_words, unique_text

BLOCK_TOKENS = 512  # of one of Mooncake's hash ids
TIMES = ("arrival_s", "due_s", "timestamp", "arrived_at", "time")
PROMPTS = (
    "prompt_tokens",
    "input_tokens",
    "contexttokens",
    "request tokens",
    "input_length",
    "num_prefill_tokens",
)
OUTPUTS = ("output_tokens", "generatedtokens", "response tokens", "output_length", "num_decode_tokens")
WANTED = "give Azure's or BurstGPT's CSV, Mooncake's JSONL, or arrival_s, prompt_tokens, output_tokens"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request of a trace."""

    at_s: float  # after the first one
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[
        int, ...
    ] = ()  # what its prompt consists of, BLOCK_TOKENS tokens each; equal ids, equal text


def read_trace(path: Path, most: int | None = None, speed: float = 1.0) -> tuple[Recorded, ...]:
    """The requests of a trace in order of arrival, the first at zero; `speed` times as fast as recorded."""
    source = path / "requests.parquet" if path.is_dir() else path
    require_regular(source)
    if source.suffix == ".parquet":
        rows = parquet_rows(source)
    elif source.suffix in (".jsonl", ".json", ".ndjson"):
        rows = json_rows(source)
    else:
        rows = csv_rows(source)
    with damaged(source):
        found = [record for record in (recorded(row, source) for row in islice(rows, most)) if record]
    if not found:
        raise InputError(f"{source} holds no request; {WANTED}")
    found.sort(key=lambda record: record.at_s)
    begin = found[0].at_s
    return tuple(replace(record, at_s=(record.at_s - begin) / speed) for record in found)


def recorded(row: dict[str, object], source: Path) -> Recorded | None:
    """A row in our words; None where it got no answer, as BurstGPT's failures."""
    known = {name.strip().lower(): value for name, value in row.items() if name}
    at, prompt, output = (
        next((known[name] for name in names if name in known), None) for names in (TIMES, PROMPTS, OUTPUTS)
    )
    if prompt is None or output is None or at is None:
        missing = "arrival times" if at is None else "prompt and output tokens"
        raise InputError(f"{source} has no {missing}; {WANTED}")
    tokens, answer = round(float(str(prompt))), round(float(str(output)))
    if tokens < 1 or answer < 1:
        return None
    hashes = known.get("hash_ids")
    blocks = tuple(int(each) for each in hashes) if isinstance(hashes, list) else ()
    milliseconds = "input_length" in known and "timestamp" in known  # Mooncake's
    return Recorded(seconds_of(str(at)) / (1e3 if milliseconds else 1), tokens, answer, blocks)


def seconds_of(text: str) -> float:
    """A number, or a date with a time of day, of which Azure's have seven decimals."""
    try:
        return float(text)
    except ValueError:
        whole, _, rest = text.strip().partition(".")
        decimals = rest.split("+")[0].rstrip("Z")
        return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{decimals or 0}")


def csv_rows(path: Path) -> Iterator[dict[str, object]]:
    with damaged(path), path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def json_rows(path: Path) -> Iterator[dict[str, object]]:
    with damaged(path), path.open(encoding="utf-8-sig") as file:
        for line in file:
            if line.strip():
                yield dict(json.loads(line))


def parquet_rows(path: Path) -> Iterator[dict[str, object]]:
    """Requests of a run of ours, as they were due."""
    from twophase.meter.tables import read_parquet

    yield from read_parquet(path, ["due_s", "prompt_tokens", "output_tokens"]).to_dicts()


@dataclass(frozen=True, slots=True)
class Replayed:
    """Prompts as long as a trace's, unique ones, or made of its blocks where it names them."""

    seed: str
    calibration: Calibration
    trace: tuple[Recorded, ...]

    def __call__(self, number: int) -> Talk:
        record = self.trace[number % len(self.trace)]
        rng = Random(f"{self.seed}/{number}")
        words = self.calibration.words(record.prompt_tokens)
        if record.blocks:
            text = self.blocks_text(record, words)
        else:
            stock, start = stock_of(self.seed)
            text = unique_text(rng, stock, start + number, words)
        return Talk((Turn(text, record.prompt_tokens, record.output_tokens),))

    def blocks_text(self, record: Recorded, words: int) -> str:
        block_words = max(round(BLOCK_TOKENS / self.calibration.tokens_per_word), 1)
        parts: list[str] = []
        for block in record.blocks:
            parts += random_words(Random(f"{self.seed}/block/{block}"), block_words)
        while len(parts) < words:
            parts.append(parts[-1])
        return " ".join(parts[:words])
