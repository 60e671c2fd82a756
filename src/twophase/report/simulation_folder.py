"""A simulated run on disk, in the form of a measured one: `twophase report` reads both."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twophase.meter.distribution import binned
from twophase.meter.run_folder import save
from twophase.meter.tables import polars
from twophase.report.simulation import BEGAN_S, Simulation, record_of
from twophase.report.simulation_html import page
from twophase.simulate.books import CACHED, FINISHED, FIRST_TOKEN_S, OUTCOME, PRODUCED, REJECTED, SCHEDULED_S


def keep(folder: Path, own: Simulation, arguments: Mapping[str, Any]) -> None:
    """run.json, requests.parquet, gaps.parquet (of all requests together: no single tokens), report.html."""
    record = replace(record_of(own), gaps=binned(*own.run.gaps_s))
    save(folder, record, arguments, lambda run: page(own))
    pl = polars()
    path = folder / "requests.parquet"
    schema = pl.read_parquet_schema(path)
    columns = {name: values for name, values in columns_of(own).items() if name in schema}
    table = pl.DataFrame(columns).with_columns(
        pl.lit(None).cast(kind).alias(name) for name, kind in schema.items() if name not in columns
    )
    table.select(pl.col(name).cast(kind) for name, kind in schema.items()).write_parquet(path)


def columns_of(own: Simulation) -> dict[str, Any]:
    """Of the requests that came, as the meter's replies have them."""
    run = own.run
    came = np.flatnonzero(~np.isnan(run.arrival_s) & (run.arrival_s <= run.ended_s))
    counts, moments = run.records.counts[came], run.records.moments[came]
    due, first, last = (
        run.arrival_s[came] + BEGAN_S,
        moments[:, FIRST_TOKEN_S] + BEGAN_S,
        run.ends_s[came] + BEGAN_S,
    )
    finished, refused = counts[:, OUTCOME] == FINISHED, counts[:, OUTCOME] == REJECTED
    queue = moments[:, SCHEDULED_S] + BEGAN_S - due
    done = np.where(finished, last, np.nan)
    return {
        "number": came,
        "point": [""] * len(came),
        "outcome": np.where(finished, "finished", np.where(refused, "rejected", "truncated")).tolist(),
        "reason": np.where(refused, "it can never be served", "").tolist(),
        "status": np.where(refused, 400, 200),
        "due_s": due,
        "sent_s": due,
        "first_event_s": nullable(first),
        "first_token_s": nullable(first),
        "first_answer_s": nullable(first),
        "last_token_s": nullable(done),
        "closed_s": nullable(np.where(refused, due, done)),
        "prompt_tokens": run.workload.prompt_tokens[came],
        "cached_tokens": counts[:, CACHED],
        "output_tokens": np.where(finished, counts[:, PRODUCED], 0).astype(np.float64),
        "asked_tokens": run.workload.output_tokens[came],
        "first_tokens": np.where(np.isnan(first), 0.0, 1.0),
        "hidden_tokens": np.zeros(len(came)),
        "token_source": ["token_ids"] * len(came),
        "finish_reason": np.where(finished, "length", "").tolist(),
        "read_lag_s": np.zeros(len(came)),
        "server_times": ["[]" if np.isnan(each) else f'[["queue_s", {each!r}]]' for each in queue.tolist()],
        "events": np.zeros(len(came), np.int64),
    }


def nullable(values: Any) -> Any:
    return polars().Series(values).fill_nan(None)
