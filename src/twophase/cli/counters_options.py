"""What options of `counters` must be to make sense, alone and together."""

import re

from twophase.errors import InputError

UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
OF_PROMETHEUS = {"query_window": "--query-window", "match": "--match"}
OF_SERVERS = {"interval": "--interval", "watch": "--watch"}


def require_sound(
    source: str | None, second: str | None, prometheus: str | None, window: str | None, given: set[str]
) -> None:
    from twophase.counters.source import is_url

    if prometheus is not None and source is not None:
        raise InputError("give a server, files or --prometheus: one of them")
    if prometheus is None and source is None:
        raise InputError("give a server's URL, two pages of its /metrics, or --prometheus URL")
    for name in given & set(OF_PROMETHEUS):
        if prometheus is None:
            raise InputError(f"{OF_PROMETHEUS[name]} is of --prometheus URL")
    if prometheus is not None:
        for name in given & set(OF_SERVERS):
            raise InputError(f"{OF_SERVERS[name]} is of a server's URL: --query-window is Prometheus'")
    if window is not None and (prometheus is not None or is_url(source or "")):
        raise InputError("--window is of two files: a server's own is --interval, Prometheus' --query-window")
    if source is None:
        return
    if second is not None and (is_url(source) or is_url(second)):
        raise InputError("give one URL, or two files: a URL is read twice by itself, an --interval apart")
    for name in given & set(OF_SERVERS):
        if not is_url(source):
            raise InputError(f"{OF_SERVERS[name]} is of a server's URL: files have --window SECONDS")


def seconds_of(option: str, text: str) -> float:
    """30, 30s, 5m, 1h."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ms|s|min|m|h|d|)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise InputError(f"{option} {text}: give a time like 30s, 5m or 1h")
    return float(found[1]) * UNITS[found[2]]


def headers_of(given: list[str], api_key: str | None) -> dict[str, str]:
    found = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()):
            raise InputError(f"--header {name}: give it as 'Name: value'")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        if not (value.isascii() and value.isprintable()):
            raise InputError(f"the value of {name} has letters that no header may have")
    return found
