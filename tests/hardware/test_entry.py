"""Users' own files: what is written is read back, and what is wrong is one line."""

import json
import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.hardware.accelerator import DTYPES, ETHERNET_100G, PCIE_4, Accelerator, Link
from twophase.hardware.catalogue import accelerators, load_accelerator
from twophase.hardware.entry import SOURCES, entry_of, read_entries, to_toml

SMALLEST = """
[mine]
flops = { bf16 = 100e12 }
memory_bytes = 16e9
bandwidth = 500e9
"""

sizes = st.floats(1e6, 1e20, allow_nan=False)
texts = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=30)
names = st.builds("{}x{}".format, texts, st.text("abc -.", max_size=5)).filter(str.isprintable)
links = st.builds(Link, sizes, st.floats(0, 1))
made = st.builds(
    Accelerator,
    name=names,
    title=texts,
    vendor=texts,
    flops=st.dictionaries(st.sampled_from(DTYPES), sizes).map(lambda flops: {"bf16": 1e12} | flops),
    memory_bytes=sizes,
    marketed_bytes=sizes,
    bandwidth=sizes,
    devices_per_node=st.integers(1, 10_000),
    intra=links,
    inter=links,
    price_per_hour=st.none() | st.floats(0, 100),
    price_date=texts,
    aliases=st.lists(texts).map(tuple),
    sources=st.dictionaries(st.sampled_from(SOURCES), texts),
    kind=st.sampled_from(["datasheet", "measured", "user"]),
)


@pytest.fixture
def refuse(tmp_path: Path):
    """Reads a text as a user's file, and gives the one line that refuses it."""

    def refuse(text: str | bytes, suffix: str = ".toml") -> str:
        path = tmp_path / f"mine{suffix}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(InputError) as refused:
            read_entries(path)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return refuse


@settings(max_examples=100, deadline=None)
@given(own=made)
def test_what_is_written_is_read_back(own: Accelerator, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("entries")
    (folder / "a.toml").write_text(to_toml({own.name: own}, "made up"), encoding="utf-8")
    (folder / "a.json").write_text(json.dumps({own.name: entry_of(own)}), encoding="utf-8")
    for path in (folder / "a.toml", folder / "a.json"):
        assert read_entries(path) == {own.name: own}


def test_the_whole_catalogue_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(to_toml(accelerators(), "all of them"))
    assert read_entries(path) == accelerators()
    assert tomllib.loads(path.read_text())["h100-sxm"]["bandwidth"] == 3.35e12


def test_three_figures_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALLEST)
    own = load_accelerator("Mine", path)
    assert (own.name, own.title, own.kind) == ("mine", "mine", "user")
    assert own.ridge == 200
    assert own.marketed_bytes == own.memory_bytes == 16e9
    assert (own.intra, own.inter, own.price_per_hour) == (PCIE_4, ETHERNET_100G, None)
    assert own.sources == {"links": "assumed where not stated"}


def test_an_own_entry_goes_before_the_catalogues(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps({"h100-sxm": {"flops": {"bf16": 1e15}, "memory_bytes": 8e10, "bandwidth": 3e12}})
    )
    assert load_accelerator("h100-sxm", path).bandwidth == 3e12
    assert load_accelerator("a100-80gb", path) == load_accelerator("a100-80gb")
    with pytest.raises(InputError, match="did you mean h100-sxm"):
        load_accelerator("h100-sxn", path)


def without(key: str) -> str:
    return "\n".join(line for line in SMALLEST.splitlines() if not line.startswith(key))


@pytest.mark.parametrize("key", ["flops", "memory_bytes", "bandwidth"])
def test_a_missing_figure_is_named(refuse, key: str) -> None:
    assert refuse(without(key)).endswith(f"[mine] lacks {key}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("memory = 3", "unknown key 'memory'; did you mean memory_bytes"),
        ("colour = 'red'", "unknown key 'colour'; known are title"),
        ("marketed_bytes = 80", "marketed_bytes = 80: must be in bytes"),
        ("devices_per_node = 0", "devices_per_node = 0: must be a whole number, at least 1"),
        ("devices_per_node = 2.5", "must be a whole number"),
        ("devices_per_node = true", "must be a whole number"),
        ("price_per_hour = -1", "price_per_hour = -1: must not be negative"),
        ("price_per_hour = 'two'", "price_per_hour = 'two': must be a number"),
        ("price_per_hour = nan", "must be a number"),
        ("title = 3", "title = 3: must be a text of one line"),
        ('title = "a\\u001b[2J"', "must be a text of one line"),
        ("kind = 'guess'", "kind = 'guess': one of datasheet, measured, user"),
        ("aliases = 'm'", "aliases must be a list of names"),
        ("aliases = [1]", "aliases = 1: must be a text"),
        ("intra = 3e9", "intra must be a table like { bandwidth"),
        ("intra = { latency_s = 1e-6 }", "intra must be a table like"),
        ("inter = { bandwidth = 50 }", "bandwidth = 50: must be in bytes/s one way"),
        ("inter = { bandwidth = 50e9, latency_s = 5 }", "must be in seconds, 2e-6 for 2 µs"),
        ("sources = 'the web'", "sources must be a table"),
        ("sources = { speed = 'the web' }", "sources: unknown key 'speed'; known are flops"),
    ],
)
def test_a_wrong_key_or_value_is_named(refuse, line: str, said: str) -> None:
    refused = refuse(SMALLEST + line)
    assert "mine.toml: [mine]" in refused
    assert said in refused


@pytest.mark.parametrize(
    ("flops", "said"),
    [
        ("3", "flops must be a table of FLOP/s by type"),
        ("{}", "flops must be a table"),
        ("{ bf16 = -1e12 }", "bf16 = -1e+12: must be in FLOP/s"),
        ("{ bf16 = 989 }", "bf16 = 989: must be in FLOP/s, 989e12 for 989 TFLOP/s"),
        ("{ bf16 = inf }", "must be a number"),
        ("{ bf16 = true }", "must be a number"),
        ("{ bf16 = 1" + "0" * 400 + " }", "must be a number"),
        ("{ bf16 = 1e12, fp7 = 1e12 }", "flops: unknown key 'fp7'"),
        ("{ fp8 = 1e12 }", "flops lacks bf16"),
    ],
)
def test_wrong_peaks_are_named(refuse, flops: str, said: str) -> None:
    assert said in refuse(SMALLEST.replace("{ bf16 = 100e12 }", flops))


@pytest.mark.parametrize(
    ("text", "suffix", "said"),
    [
        ("", ".toml", "has no accelerator: give one table a device"),
        ("{}", ".json", "has no accelerator"),
        ("[]", ".json", "has no accelerator"),
        ("[1, 2]", ".json", "has no accelerator"),
        ("[mine", ".toml", "is damaged: TOMLDecodeError"),
        ('{"mine": ', ".json", "is damaged: JSONDecodeError"),
        (b"\xff\xfe\x00", ".toml", "is UTF-16 text: save it as UTF-8"),
        ("[" * 100_000, ".json", "is damaged: RecursionError"),
        ('{"mine": {"bandwidth": ' + "9" * 5000 + "}}", ".json", "is damaged: ValueError"),
        ("bandwidth = 1e12\nmemory_bytes = 1e9", ".toml", "a file holds one table a device"),
        ('{"mine": [1]}', ".json", "[mine] is not a table of an accelerator's figures"),
        ('{"": {}}', ".json", "give a name of letters and digits"),
        ('["-"]', ".toml", "give a name of letters and digits"),
        ("# " + "x" * (1 << 20), ".toml", "has more than 1 MiB"),
    ],
)
def test_hostile_files_are_refused_in_one_line(refuse, text: str | bytes, suffix: str, said: str) -> None:
    assert said in refuse(text, suffix)


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/no/such/file"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(InputError, match=r"not a file|can't be read"):
        read_entries(Path(path))


@settings(max_examples=200, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    key=st.sampled_from(
        [
            "flops",
            "memory_bytes",
            "bandwidth",
            "intra",
            "price_per_hour",
            "sources",
            "aliases",
            "kind",
            "title",
        ]
    ),
)
def test_any_value_is_taken_or_refused_by_an_input_error(
    value: object, key: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.json"
    entry = {"flops": {"bf16": 1e12}, "memory_bytes": 1e9, "bandwidth": 1e11} | {key: value}
    path.write_text(json.dumps({"mine": entry}), encoding="utf-8")
    try:
        own = read_entries(path)["mine"]
    except InputError as refused:
        assert key in str(refused)
    else:
        assert math.isfinite(own.ridge) and own.ridge > 0
