"""twophase diagnose URL, against a server whose laws are known and that never answers early."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from law_server import TEMPLATE, LawServer, running
from page_reader import read_page

pytest.importorskip("httptools")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[LawServer]:
    with running(LawServer()) as own:
        yield own


def test_a_server_is_measured_and_judged(server: LawServer, run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    url = f"http://127.0.0.1:{server.port}"
    options = ("--budget", "6", "--gpu", "h100-sxm", "--most-batch", "4", "--html", str(page), "--json")
    status, out, _ = run("diagnose", url, *options)
    made = json.loads(out)
    assert (status, made["fit"]["failed"]) == (0, [])
    assert made["server"]["model"] == "llama-3-8b"
    assert made["cached_share"] == 0
    lengths = [row["prompt_tokens"] for row in made["prefill"]]
    assert len(lengths) >= 5
    assert lengths == sorted(lengths)
    for row in made["prefill"]:
        assert row["least_s"] >= server.ttft_s(row["prompt_tokens"])  # the server never answers early
        assert row["floor_s"] > 0
    assert {row["batch"] for row in made["decode"]} >= {1, 4}
    assert all(row["itl_s"] > 0.9 * server.itl for row in made["decode"])
    assert {"overhead_s", "linear_s_per_token", "quadratic_s_per_token2"} <= made["fit"]["ttft"].keys()
    assert made["meter_error_s"] >= 0
    assert any("llama-3-8b" in note for note in made["notes"])
    assert read_page(page.read_text()).counts["svg"] == 3


def test_every_prompt_is_new_from_its_first_words(server: LawServer) -> None:
    """After the test above: a prefix cache would have found nothing."""
    if not server.prompts:
        pytest.skip("run with the test that measures")
    beginnings = [" ".join(text.split()[:3]) for text in server.prompts if len(text.split()) > 3]
    assert len(set(beginnings)) == len(beginnings)
    assert min(len(text.split()) for text in server.prompts) + TEMPLATE >= 12


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("http://127.0.0.1:9", "--budget", "1"), "no server answers at http://127.0.0.1:9"),
        (("http://x", "--load", "random"), "--load is for a model that runs here"),
        (("llama-3-8b", "--gpu", "h100-sxm"), "--gpu is for a server's URL"),
        (("http://x", "--json", "--plain"), "give one of --json and --plain"),
        (("http://x", "--endpoint", "chats"), "--endpoint chats"),
        (("http://x", "--longest", "20"), "--longest 20"),
        (("http://x", "--gpu", "h100-sxm", "--model", "no-such-model"), "no-such-model"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], says: str, run: Run) -> None:
    status, out, err = run("diagnose", *arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
