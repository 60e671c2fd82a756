"""Proxies from the environment, as curl and Go read it: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from twophase.errors import InputError


@dataclass(frozen=True, slots=True)
class Proxy:
    host: str
    port: int
    authorization: str = ""  # of the header Proxy-Authorization


def split_url(url: str, what: str = "URL") -> SplitResult:
    """An http(s) URL taken apart, or one line on what is wrong with it."""
    right = "give http://host:port or https://host"
    shown = url.rsplit("@", maxsplit=1)[-1]  # what stands before it may be a password
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{what} {shown}: {error}; {right}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(f"{what} {shown}: {right}")
    if any(letter.isspace() or not letter.isprintable() for letter in url):
        raise InputError(f"{what} {shown!r} has a space or a control character in it; {right}")
    return parts


def proxy_of(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy's URL through which this one is reached; None: directly. Loopback never goes through one."""
    parts = split_url(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)

    def variable(name: str) -> str:  # the lower-case one first, as curl has it
        return environment.get(name.lower()) or environment.get(name) or ""

    if is_loopback(host) or any(spared(host, port, each) for each in variable("NO_PROXY").split(",")):
        return None
    found = variable(f"{parts.scheme.upper()}_PROXY") or variable("ALL_PROXY")
    return found or None


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = address_of(host)
    return address is not None and address.is_loopback


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def spared(host: str, port: int, pattern: str) -> bool:
    """Whether an entry of NO_PROXY names this host: `*`, a name and all under it, an address, a network."""
    pattern = pattern.strip().lower()
    if pattern in ("", "*"):
        return pattern == "*"
    address = address_of(host)
    if address is not None and "/" in pattern:
        try:
            return address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    if address_of(pattern) is None:
        pattern, _, wanted = pattern.partition(":") if pattern[0] != "[" else (pattern[1:], "", "")
        pattern = pattern.partition("]")[0]
        if wanted and wanted != str(port):
            return False
    if address is not None:
        return address == address_of(pattern)
    pattern = pattern.removeprefix("*").removeprefix(".")
    return host == pattern or host.endswith(f".{pattern}")


def read_proxy(url: str) -> Proxy:
    if "://" not in url:
        url = f"http://{url}"
    scheme = url.partition("://")[0].lower()
    if scheme != "http":
        raise InputError(f"a proxy of the kind {scheme}:// is not supported; give one as http://host:port")
    parts = split_url(url, "proxy")
    return Proxy(parts.hostname or "", parts.port or 80, basic_authorization(parts))


def basic_authorization(parts: SplitResult) -> str:
    """The header's value for user:password@host, empty where the URL names nobody."""
    if parts.username is None:
        return ""
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(secret.encode()).decode()}"
