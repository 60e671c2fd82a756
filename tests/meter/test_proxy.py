"""Which proxy the environment names for a URL."""

import pytest

from twophase.errors import InputError
from twophase.meter.proxy import Proxy, proxy_of, read_proxy

BOTH = {"HTTP_PROXY": "http://p:1", "https_proxy": "http://s:2"}


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("http://host", {}, None),
        ("http://host", BOTH, "http://p:1"),
        ("https://host", BOTH, "http://s:2"),
        ("https://host", {"ALL_PROXY": "a:3"}, "a:3"),
        ("http://host", {"http_proxy": "http://l:1", "HTTP_PROXY": "http://u:1"}, "http://l:1"),
        ("http://localhost:8000", BOTH, None),
        ("http://127.0.0.1:8000", BOTH, None),
        ("http://[::1]:8000", BOTH, None),
        ("http://host", BOTH | {"NO_PROXY": "*"}, None),
        ("http://host", BOTH | {"NO_PROXY": "other, host"}, None),
        ("http://a.host", BOTH | {"NO_PROXY": "host"}, None),
        ("http://a.host", BOTH | {"no_proxy": ".host"}, None),
        ("http://a.host", BOTH | {"no_proxy": "*.host"}, None),
        ("http://ahost", BOTH | {"no_proxy": "host"}, "http://p:1"),
        ("http://host:8000", BOTH | {"no_proxy": "host:8000"}, None),
        ("http://host:8001", BOTH | {"no_proxy": "host:8000"}, "http://p:1"),
        ("http://host", BOTH | {"no_proxy": "host:80"}, None),
        ("http://10.1.2.3:8000", BOTH | {"no_proxy": "10.0.0.0/8"}, None),
        ("http://11.1.2.3:8000", BOTH | {"no_proxy": "10.0.0.0/8"}, "http://p:1"),
        ("http://10.1.2.3", BOTH | {"no_proxy": "10.1.2.3"}, None),
        ("http://[fd00::1]", BOTH | {"no_proxy": "[fd00::1]"}, None),
        ("http://[fd00::1]", BOTH | {"no_proxy": "fd00::1"}, None),
        ("http://host", BOTH | {"no_proxy": "10.0.0.0/8,,10.1.2.3/99, "}, "http://p:1"),
    ],
)
def test_proxy_of(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_of(url, environment) == proxy


def test_a_proxys_url() -> None:
    assert read_proxy("http://u:p@proxy:3128/") == Proxy("proxy", 3128, "Basic dTpw")
    assert read_proxy("proxy:80") == read_proxy("HTTP://proxy") == Proxy("proxy", 80)


@pytest.mark.parametrize("url", ["socks5://proxy:1080", "https://proxy:1", "http://", "http://p:x"])
def test_proxies_of_other_kinds(url: str) -> None:
    with pytest.raises(InputError, match="give"):
        read_proxy(url)
