"""Print the table of docs/fit.md: what engines logged, and what `twophase fit` says of the same flags."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fit"))

from fit_cases import GIB, MISSES, Row, fit_of, has_device, rows

HEADS = ("case", "model", "engine", "logged", "from the logged pool", "from GPU and flags", "GiB of the pool")


def main() -> None:
    print(f"| {' | '.join(HEADS)} |")
    print(f"|{'---|' * len(HEADS)}")
    for case, row in rows().items():
        print(f"| {' | '.join(cells(case, row))} |")
    print("\n¹ Not explained by GPU and flags:\n")
    for case, reason in MISSES.items():
        print(f"- {case}: {reason}.")


def cells(case: str, row: Row) -> tuple[str, ...]:
    tokens = float(row["tokens"]) if row["tokens"] else None
    logged = f"{tokens:,.0f}" if tokens else ""
    if row["concurrency"]:
        logged += f"{', ' if logged else ''}{row['concurrency']}x"
    if row["starts"] == "no":
        logged += f"{', ' if logged else ''}does not start"
    from_pool = from_flags = pools = ""
    if float(row["kv_gib"] or 0) > 0:
        own = fit_of(row, "kv").capacity
        from_pool = f"{own.logged_tokens:,}{off(own.logged_tokens, tokens)}, {own.concurrency:.2f}x"
    if has_device(row) or case == "FIT-73":
        # which of FIT-73's layers are in NVFP4 is not in the report, but what they weigh is
        found = fit_of(row, "weights") if case == "FIT-73" else fit_of(row)
        own = found.capacity
        from_flags = f"{own.logged_tokens:,}{off(own.logged_tokens, tokens)}"
        from_flags += "" if found.fits else ", does not fit"
        from_flags += " ¹" if case in MISSES else ""
        pools = f"{found.kv_pool_bytes / GIB:.2f}"
        pools += f" ({row['kv_gib']} logged)" if row["kv_gib"] else ""
    engine = f"{row['engine']} {row['version']}".strip()
    return case, row["model"], engine, logged, from_pool, from_flags, pools


def off(own: float, logged: float | None) -> str:
    return f" ({own / logged - 1:+.2%})" if logged else ""


if __name__ == "__main__":
    main()
