import json
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.meter.datasets import read_dataset
from twophase.workload.lengths import Lengths


def written(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_lines_with_prompts_and_with_messages(tmp_path: Path) -> None:
    path = written(
        tmp_path / "own.jsonl",
        {"prompt": "what is it", "max_tokens": 7},
        "",
        {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [{"text": "parts"}]}]},
        {"prompt": "said", "completion": "x" * 400},
    )
    talks = {talk.turns[0].text: talk for talk in read_dataset(path, None, 1, "s")}
    assert set(talks) == {"what is it", "parts", "said"}
    assert talks["what is it"].turns[0].max_tokens == 7
    assert talks["parts"].before == (("system", "S"),)
    assert talks["parts"].turns[0].max_tokens == 128
    assert talks["said"].turns[0].max_tokens == 100  # four letters a token


def test_sharegpt_turns_and_drawn_answers(tmp_path: Path) -> None:
    said = [("human", "first"), ("gpt", "a" * 40), ("human", "second"), ("gpt", "b" * 80)]
    rows = [
        {"id": "1", "conversations": [{"from": who, "value": text} for who, text in said]},
        {"id": "2", "conversations": [{"from": "gpt", "value": "nobody asked"}]},
    ]
    path = tmp_path / "share.json"
    path.write_text(json.dumps(rows))
    (one,) = read_dataset(path, None, 1, "s")
    assert [(turn.text, turn.max_tokens) for turn in one.turns] == [("first", 10)]
    (two,) = read_dataset(path, None, 2, "s")
    assert [(turn.text, turn.max_tokens) for turn in two.turns] == [("first", 10), ("second", 20)]
    (drawn,) = read_dataset(path, Lengths("fixed", 33), 2, "s")
    assert [turn.max_tokens for turn in drawn.turns] == [33, 33]


def test_the_order_is_the_seeds(tmp_path: Path) -> None:
    path = written(tmp_path / "many.jsonl", *({"prompt": str(number)} for number in range(50)))
    orders = [[talk.turns[0].text for talk in read_dataset(path, None, 1, seed)] for seed in "aab"]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0], key=int) == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["{not json"], "line 1: not JSON"),
        ([{"prompt": "a"}, {"nothing": 1}], "line 2: no prompt"),
        ([""], "no prompt"),
        (["[1, 2]"], "item 1: no prompt"),
        ([{"conversations": 5}], "line 1: no prompt"),
        ([{"prompt": "a"}, {"messages": [None]}], "line 2: no prompt"),
        ([{"prompt": "a"}, {"messages": "b"}], "line 2: no prompt"),
        ([{"prompt": "a"}, {"prompt": "b", "max_tokens": "many"}], "line 2: an answer of 'many' tokens"),
        (['{"prompt": "a", "max_tokens": NaN}'], "line 1: an answer of 'nan' tokens"),
        (['{"prompt": "a", "max_tokens": 1e400}'], "line 1: an answer of 'inf' tokens"),
        ([{"prompt": "a", "output_len": -5}], "line 1: an answer of '-5' tokens"),
        ([{"prompt": "a", "output_len": 10**13}], "line 1: an answer of '10000000000000' tokens"),
        ([{"prompt": "a"}, "{" + '"a":[' * 100_000], "line 2: not JSON"),
    ],
)
def test_what_is_no_dataset_is_refused_in_one_line(tmp_path: Path, rows: list[object], says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        read_dataset(written(tmp_path / "bad.jsonl", *rows), None, 1, "s")
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl"):
        read_dataset(tmp_path / "none.jsonl", None, 1, "s")


def test_a_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": "caf\xe9"}\n')
    with pytest.raises(InputError, match="line 2: not UTF-8"):
        read_dataset(path, None, 1, "s")
