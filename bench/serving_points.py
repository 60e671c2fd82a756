"""Predict TTFT and TPOT of every measured serving point, and print how far off they are.

    python bench/serving_points.py --points serving_points.csv [--provenance served|curves|floor] [--csv OUT]

Coverage counts rows with a prediction among those that are not physically impossible; errors are relative to
what was measured, by engine, system and model.
"""

import argparse
import csv
import time
from pathlib import Path

from serving_errors import Scored, impossible, table
from serving_rows import Row, read_rows

from twophase.calibration.served_times import constants
from twophase.errors import InputError
from twophase.lint.names import Models, folder_models
from twophase.simulate.steady import PromptPool, Steady, predict_steady


def predict(row: Row, provenance: str = "served") -> Steady:
    drafts = {"": 1.0, "known": "accepted", "perhaps": "perhaps_accepted"}[row.drafts]
    accepted = constants()["reading"][drafts] if isinstance(drafts, str) else drafts
    return predict_steady(
        row.decode,
        row.accelerator,
        row.engine,
        row.prompt,
        row.output,
        row.clients,
        workers=row.workers,
        prompts=PromptPool(row.prefill, row.prompt_workers) if row.point.disaggregated else None,
        accepted=accepted,
        chunk=int(row.chunk),
        in_step=row.in_step,
        looks=row.looks,
        provenance=provenance,  # type: ignore[arg-type]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="a folder of config.json files, beside the catalogue")
    parser.add_argument("--provenance", choices=["served", "curves", "floor"], default="served")
    parser.add_argument("--csv", type=Path, help="write each row's prediction")
    given = parser.parse_args()
    start = time.perf_counter()
    rows, refused = read_rows(given.points, Models(folder_models(given.models) if given.models else None))
    scored: list[Scored] = []
    cant: list[tuple[str, str]] = []
    missing = list(refused)
    within = [0, 0]
    for row in rows:
        why = impossible(row)
        if why:
            cant.append((row.point.row, why))
            continue
        try:
            found = predict(row, given.provenance)
        except InputError as error:
            missing.append((row.point.row, str(error)))
            continue
        ttft, tpot = row.point.ttft_s or 0.0, row.point.tpot_s or 0.0
        scored.append((row, found.ttft_s / ttft, found.tpot_s / tpot))
        within[0] += found.ttft_range_s[0] <= ttft <= found.ttft_range_s[1]
        within[1] += found.tpot_range_s[0] <= tpot <= found.tpot_range_s[1]
    possible = len(scored) + len(missing)
    print(
        f"{given.points.name}: {len(rows) + len(refused):,} rows, {len(cant)} physically impossible, ", end=""
    )
    print(f"{len(scored):,} of {possible:,} predicted ({len(scored) / max(possible, 1):.1%})")
    print(f"in the stated interval: TPOT {within[1] / len(scored):.0%}, TTFT {within[0] / len(scored):.0%}\n")
    print(table(scored))
    for title, rest in (("impossible", cant), ("not predicted", missing)):
        for name, why in rest:
            print(f"\n{title}: {name}: {why}", end="")
    print(f"\n{time.perf_counter() - start:.0f} s")
    if given.csv:
        _write(given.csv, scored)


def _write(path: Path, scored: list[Scored]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["id", "predicted_ttft_ms", "predicted_tpot_ms", "ttft_over_measured", "tpot_over_measured"]
        )
        for row, ttft, tpot in scored:
            measured = row.point
            times = (ttft * (measured.ttft_s or 0) * 1e3, tpot * (measured.tpot_s or 0) * 1e3)
            rows.writerow([measured.row, *(f"{t:.6g}" for t in times), f"{ttft:.4f}", f"{tpot:.4f}"])


if __name__ == "__main__":
    main()
