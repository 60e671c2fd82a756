"""What was simulated so far: in memory, and a line each in a run folder, from which a later run goes on."""

import hashlib
import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twophase.errors import InputError, damaged, require_regular
from twophase.plan.candidate import Candidate, key_of
from twophase.plan.question import Question
from twophase.plan.trial import Trial, trial_as_dict, trial_from
from twophase.plan.workers import Try, Work

TRIALS, ASKED, ANSWER = "trials.jsonl", "question.json", "plan.json"


class Ledger:
    """Each candidate is simulated once."""

    def __init__(self, work: Work, folder: Path | None = None) -> None:
        self.work, self.folder = work, folder
        self.trials: dict[Candidate, Trial] = {}
        self.known: dict[str, Trial] = read_trials(folder) if folder else {}

    def tried(self, own: Sequence[Candidate]) -> list[Trial]:
        for each in own:
            if each not in self.trials and key_of(each) in self.known:
                self.trials[each] = self.known[key_of(each)]
        new = [each for each in dict.fromkeys(own) if each not in self.trials]
        for each, trial in zip(new, self.work([Try(each) for each in new]), strict=True):
            self.trials[each] = trial
            if self.folder:
                with (self.folder / TRIALS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key_of(each), **trial_as_dict(trial)}) + "\n")
        return [self.trials[each] for each in own]


def read_trials(folder: Path) -> dict[str, Trial]:
    """A last line that was cut off in writing is left out."""
    path = folder / TRIALS
    if not path.exists():
        return {}
    found: dict[str, Trial] = {}
    with damaged(path):
        lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            content: dict[str, Any] = json.loads(line)
            key = content.pop("key")
            found[key] = trial_from(content)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            if number == len(lines):  # without its end of line
                break
            raise InputError(f"{path}, line {number}: no trial of a plan") from None
    if lines[-1]:
        path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return found


def open_folder(folder: Path, question: Question, resume: bool) -> None:
    """InputError where it holds another question's trials, or any without --resume."""
    asked = folder / ASKED
    for name in (ASKED, TRIALS, ANSWER):
        require_regular(folder / name)
    mark = fingerprint(question)
    if asked.exists():
        if not resume:
            raise InputError(f"-o {folder} holds a plan: give --resume to go on with it, or another folder")
        with damaged(asked):
            before = json.loads(asked.read_text(encoding="utf-8")).get("fingerprint")
        if before != mark:
            raise InputError(
                f"-o {folder} holds a plan of another question (options, workload or version): "
                "--resume goes on with the same one alone"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"-o {folder} is there, and no plan of ours: give a new or an empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        asked.write_text(json.dumps({"fingerprint": mark}) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"-o {folder} can't be written: {error.strerror}") from None


def fingerprint(question: Question) -> str:
    """Of all that a trial depends on; the space and the budget may grow from run to run."""
    from twophase import __version__

    own = question.workload
    rest = replace(question, workload=own.first(0), space=None, max_gpus=None, max_cost=None, prices={})  # type: ignore[arg-type]
    rest = replace(rest, models=dict(sorted(question.models.items())[:1]), accelerators={})
    digest = hashlib.sha256(__version__.encode())
    digest.update(repr(rest).encode())
    for each in (own.arrival_s, own.prompt_tokens, own.output_tokens, own.follows, own.priority):
        digest.update(b"-" if each is None else each.tobytes())
    digest.update(pickle.dumps(own.content))
    digest.update(repr((max(question.space.max_tokens), max(question.space.max_sequences))).encode())
    for name, device in question.accelerators.items():
        if device.kind != "datasheet":
            digest.update(repr((name, device)).encode())
    return digest.hexdigest()[:24]
