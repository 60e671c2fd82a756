import json
from pathlib import Path

import pytest

from twophase.cli import main
from twophase.engine import default_model

CASES = json.loads((Path(__file__).parents[1] / "data" / "gemma_3_tokens.json").read_text())


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["twophase", "tokenize", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_json_has_the_ids_and_their_spelling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(case for case in CASES if case["text"].startswith("naïve"))
    assert run(monkeypatch, case["text"], "--json") == 0
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert content["ids"] == case["ids"]
    assert "".join(content["tokens"]) == "<bos>" + case["text"].replace(" ", "▁")
    assert printed.err == ""


def test_a_line_for_each_token(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "Once upon a time") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == [2, 14946, 3324, 496, 990]


def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(default_model, "PACKAGE", "no_such_package")
    for arguments, said in [
        ((), "the extra gemma"),
        ((str(tmp_path),), "tokenizer.json is missing"),
        ((str(tmp_path / "none.gguf"),), "none.gguf"),
    ]:
        assert run(monkeypatch, "text", *arguments) == 2
        printed = capsys.readouterr()
        assert said in printed.err
        assert printed.err.count("\n") == 1
        assert printed.out == ""
