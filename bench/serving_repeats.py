"""How far apart equal serving points were measured: what no prediction of their columns can know.

    python bench/serving_repeats.py --points serving_points.csv

Of points whose every known column is equal, but for date and release, and whose figures are not: the error of
the one number for each that errs least.
"""

import argparse
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from serving_errors import impossible
from serving_rows import Row, read_rows

from twophase.lint.names import Models

Floats = NDArray[np.float64]


def label(row: Row) -> Hashable:
    """DeepSeek R1 is as fast as V3."""
    model = row.model.replace("-R1", "-V3")
    pools = (row.workers, row.prompt_workers, row.point.disaggregated)
    return (
        model,
        row.engine,
        row.system,
        row.decode,
        row.prefill,
        *pools,
        row.clients,
        row.prompt,
        row.output,
    )


def least_errors(measured: Floats) -> Floats:
    """Relative ones, of the number with the least mean of them: their median, weighted by their inverses."""
    at = np.sort(measured)
    heavier = np.cumsum(1 / at)
    best = at[np.searchsorted(heavier, heavier[-1] / 2)]
    return np.asarray(np.abs(best / measured - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=Path, required=True)
    given = parser.parse_args()
    rows, _ = read_rows(given.points, Models())
    same: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        if not impossible(row):
            same[label(row)].append(row)
    for name in ("TTFT", "TPOT"):
        for pools in (False, True):
            found = [
                np.array([(r.point.ttft_s if name == "TTFT" else r.point.tpot_s) or np.nan for r in each])
                for each in same.values()
                if each[0].point.disaggregated == pools
            ]
            found = [each for each in found if len(set(each)) > 1]
            spread = np.array([each.max() / each.min() for each in found])
            print(
                f"{name} {'pools' if pools else 'aggregated':11}{len(found):4d} labels, "
                f"{sum(map(len, found)):4d} rows: at best MAPE "
                f"{np.mean(np.concatenate([least_errors(each) for each in found])):.1%}; most over least "
                f"{np.median(spread):.2f} (median), {np.percentile(spread, 90):.2f} (one in ten)"
            )


if __name__ == "__main__":
    main()
