"""Pages from files and servers, and the window between two of them."""

import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from twophase.counters.exposition import Page
from twophase.counters.fetch import Target, fetch, with_path
from twophase.counters.page import LARGEST, Read, read_page
from twophase.counters.turned_off import engine_at, no_page
from twophase.errors import InputError, damaged, require_regular

BASES = ("", "/", "/v1", "/v1/")
ELSEWHERE = "/prometheus/metrics"  # TensorRT-LLM's; its /metrics drains iterations


def is_url(name: str) -> bool:
    return "://" in name[:12]


def read_file(name: str) -> Read:
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file; a server is given as http://host:8000")
    require_regular(path)
    with damaged(path):
        if path.stat().st_size > LARGEST:
            raise InputError(f"{name}: larger than {LARGEST >> 20} MiB, which no page of counters is")
        content = path.read_bytes()
    return read_page(content, name)


def metrics_of(own: Target) -> Target:
    """http://host:8000 and http://host:8000/v1 mean its /metrics."""
    parts = urlsplit(own.url)
    return with_path(own, "/metrics") if parts.path in BASES and not parts.query else own


def find_page(own: Target) -> Target:
    """The URL that counters are at: of a base, /metrics, or TensorRT-LLM's other path where that has more."""
    there = metrics_of(own)
    if there is own:
        return own
    answer = fetch(there)
    iterations = answer.content[:1] == b"["
    if answer.status == 200 and not iterations:
        return there
    other = with_path(own, ELSEWHERE)
    if fetch(other).status == 200:
        return other
    if answer.status == 200:
        return there
    raise no_page(there, answer.status, answer.content)


def scrape(own: Target) -> tuple[Read, float]:
    """(the page, time.monotonic() of it)."""
    answer = fetch(own)
    if answer.status != 200:
        raise no_page(own, answer.status, answer.content)
    if not answer.content.strip():
        who = engine_at(own)
        raise InputError(f"{own.url} is empty{' (' + who + ')' if who else ''}: no counters there yet")
    read = read_page(answer.content, own.url)
    if read.page is not None and read.page.time_s is None:
        read = replace(read, page=replace(read.page, time_s=time.time()))
    return read, answer.at_s


def seconds_between(first: Page, second: Page, stated: float | None) -> float | None:
    """What the user says, else by the samples' own time; None where neither tells."""
    if stated is not None:
        return stated
    if first.time_s is None or second.time_s is None or first.time_s == second.time_s:
        return None
    if second.time_s < first.time_s:
        raise InputError("the second page is older than the first: give them the other way round")
    return second.time_s - first.time_s
