"""Nothing is simulated twice, and a folder's plan goes on where it was."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_questions import SMALL, load, question

from twophase.errors import InputError
from twophase.plan.candidate import Candidate, Kind, Layout
from twophase.plan.ledger import ANSWER, ASKED, TRIALS, Ledger, fingerprint, open_folder
from twophase.plan.slo import Kept, Slo
from twophase.plan.trial import Trial, trial_as_dict
from twophase.plan.workers import Piece, Try

KIND = Kind(Layout("h100-sxm", "", "bf16", 1, 1, 1), 2048, 64)


class Counting:
    """Work that says how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[Candidate] = []

    def __call__(self, pieces: Sequence[Piece]) -> Iterator[Any]:
        for each in pieces:
            assert isinstance(each, Try)
            self.asked.append(each.candidate)
            yield trial(each.candidate.replicas)


def trial(number: int) -> Trial:
    return Trial(
        Kept(0.5, 0.1 * number, 0.01, float("inf"), cut=True), (0.1, 0.2), (0.01, 0.02), 0.7, 99.5, 3
    )


def test_each_candidate_once(tmp_path: Path) -> None:
    some = [Candidate(KIND, count) for count in (1, 2, 1)]
    work = Counting()
    assert [each.kept.ttft_s for each in Ledger(work, tmp_path).tried(some)] == [0.1, 0.2, 0.1]
    assert work.asked == some[:2]
    again = Counting()
    found = Ledger(again, tmp_path).tried([*some, Candidate(KIND, 3)])
    assert again.asked == [Candidate(KIND, 3)]
    assert found[1] == trial(2)


def test_a_line_that_was_cut_off_is_simulated_again(tmp_path: Path) -> None:
    Ledger(Counting(), tmp_path).tried([Candidate(KIND, 1), Candidate(KIND, 2)])
    path = tmp_path / TRIALS
    path.write_text(path.read_text()[:-20])
    again = Counting()
    Ledger(again, tmp_path).tried([Candidate(KIND, 1), Candidate(KIND, 2)])
    assert again.asked == [Candidate(KIND, 2)]
    whole = Counting()
    Ledger(whole, tmp_path).tried([Candidate(KIND, 1), Candidate(KIND, 2)])
    assert whole.asked == []
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(InputError, match="line 1"):
        Ledger(whole, tmp_path)


GOOD: dict[str, Any] = {"key": "k", **trial_as_dict(trial(1))}


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe{}",
        b"[]",
        b"5",
        b"[" * 100_000,
        json.dumps({**GOOD, "kept": "x"}).encode(),
        json.dumps({**GOOD, "kept": {**GOOD["kept"], "share": None}}).encode(),
        json.dumps({**GOOD, "kept": {**GOOD["kept"], "cut": 1}}).encode(),
        json.dumps({**GOOD, "ttft_s": [0.1]}).encode(),
        json.dumps({**GOOD, "ttft_s": ["a", "b"]}).encode(),
        json.dumps({**GOOD, "busy_share": float("nan")}).encode(),
        json.dumps({**GOOD, "finished": -1}).encode(),
        json.dumps({**GOOD, "more": 1}).encode(),
    ],
)
def test_what_others_wrote_in_it_is_named(tmp_path: Path, line: bytes) -> None:
    good = json.dumps(GOOD).encode()
    (tmp_path / TRIALS).write_bytes(good + b"\n")
    assert Ledger(Counting(), tmp_path).known == {"k": trial(1)}
    (tmp_path / TRIALS).write_bytes(good + b"\n" + line + b"\n")
    with pytest.raises(InputError, match=r"trials\.jsonl(, line 2: no trial| is)"):
        Ledger(Counting(), tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_question_is_named(tmp_path: Path, content: bytes) -> None:
    open_folder(tmp_path / "a", question(), False)
    (tmp_path / "a" / ASKED).write_bytes(content)
    with pytest.raises(InputError, match=r"question\.json"):
        open_folder(tmp_path / "a", question(), True)


@pytest.mark.parametrize("name", [ASKED, TRIALS, ANSWER])
def test_a_folder_in_a_file_s_place_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is a directory"):
        open_folder(tmp_path, question(), True)


def test_a_folder_is_of_one_question(tmp_path: Path) -> None:
    own = question()
    open_folder(tmp_path / "a", own, False)
    with pytest.raises(InputError, match="--resume"):
        open_folder(tmp_path / "a", own, False)
    open_folder(tmp_path / "a", own, True)
    with pytest.raises(InputError, match="another question"):
        open_folder(tmp_path / "a", replace(own, slo=Slo(1.0)), True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").touch()
    with pytest.raises(InputError, match="no plan of ours"):
        open_folder(tmp_path / "b", own, False)


def test_what_a_trial_depends_on_is_in_its_mark() -> None:
    own = question()
    mark = fingerprint(own)
    assert mark == fingerprint(question())
    for other in (
        replace(own, workload=load(21.0)),
        replace(own, slo=Slo(0.5, 0.03, attainment=0.99)),
        replace(own, router="least-loaded"),
        replace(own, context_length=4096),
        replace(own, seed=1),
    ):
        assert fingerprint(other) != mark
    for same in (replace(own, max_gpus=8), replace(own, max_cost=3.0), replace(own, prices={})):
        assert fingerprint(same) == mark
    wider = replace(own, space=replace(SMALL, max_tokens=(512, 8192)))
    assert fingerprint(wider) != mark
