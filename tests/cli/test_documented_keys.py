"""Every key that --json prints stands in the docs' list of keys."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
DOCS = Path(__file__).parents[2] / "docs"
# objects whose keys are names of the input's: accelerators, facts, what was counted
NAMED = {"facts", "sources", "finish_reasons", "usd_per_gpu_hour", "clocks", "ruled_out"}
LOAD = ("--rate", "20", "--prompt-tokens", "100", "--output-tokens", "8")
SLO = ("--slo", "ttft=1s,tpot=50ms")
SMALL_PLAN = (
    *("--requests", "40", "--processes", "1", "--gpus", "h100-sxm,l40s", "--tp", "1", "--pp", "1"),
    *("--weights", "own", "--kv", "bf16", "--max-tokens-per-pass", "2048", "--max-sequences", "64"),
)


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from keys_of(each)
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            if name in NAMED:
                each = list(each.values())  # noqa: PLW2901
            yield from keys_of(each)


def listed(page: str, heading: str) -> set[str]:
    """Words of a page's section."""
    section = (DOCS / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"\w+", section))


@pytest.mark.parametrize(
    ("options", "pages"),
    [
        (("simulate", *LOAD, *SLO, "--requests", "40", "--disaggregate", "1:1"), ["simulate.md", "bench.md"]),
        (
            ("simulate", *LOAD, "--rate", "3000", "--requests", "600", "--turns", "2"),
            ["simulate.md", "bench.md"],
        ),
        (("simulate", *LOAD[2:], "--concurrency", "4", "--requests", "40"), ["simulate.md", "bench.md"]),
        (("advise", *LOAD, *SLO), ["advise.md"]),
        (("plan", *LOAD, *SLO, *SMALL_PLAN), ["plan.md"]),
        (("plan", *LOAD, "--rate", "200", "--slo", "ttft=12ms,tpot=7.5ms", *SMALL_PLAN), ["plan.md"]),
    ],
)
def test_every_key_is_documented(run: Run, options: tuple[str, ...], pages: list[str]) -> None:
    verb, *rest = options
    status, out, err = run(verb, "llama-3.1-8b", *rest, "--json")
    assert status in (0, 1), err
    known = set[str]()
    for page in pages:
        known |= listed(page, "--json" if page == "bench.md" else "Keys of `--json`")
    assert set(keys_of(json.loads(out))) - known == set()
