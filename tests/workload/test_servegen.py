import json
from pathlib import Path

import numpy as np
import pytest

from twophase.errors import InputError
from twophase.workload.servegen import is_servegen, read_servegen

LENGTHS = {"0": {"input_tokens": "{100: 0.75, 200: 0.25}", "output_tokens": "{7: 1.0}"}}


def client(folder: Path, number: int, trace: str, lengths: object = LENGTHS) -> None:
    (folder / f"chunk-{number}-trace.csv").write_text(trace)
    (folder / f"chunk-{number}-dataset.json").write_text(json.dumps(lengths))


def test_clients_keep_their_rates_laws_and_lengths(tmp_path: Path) -> None:
    # mean gaps 1/4 s (gamma: shape * scale) and 1/2 s; the first window is empty
    client(tmp_path, 0, "0,0,0,,0,0\n600,4,1.4,Gamma,0.5,0.5\n1200,4,1.4,Gamma,0.5,0.5\n")
    client(tmp_path, 1, "0,0,0,,0,0\n600,2,1,Weibull,1.0,0.5\n1200,0,0,,0,0\n")
    assert is_servegen(tmp_path)
    made = read_servegen(tmp_path, "s", None)
    assert len(made) == pytest.approx(4 * 1200 + 2 * 600, rel=0.05)
    early = np.count_nonzero(made.arrival_s < 600)
    assert early == pytest.approx(6 * 600, rel=0.07)
    assert np.all(np.diff(made.arrival_s) >= 0)
    assert made.prompt_tokens.mean() == pytest.approx(125, rel=0.03)
    assert set(made.output_tokens.tolist()) == {7}
    assert len(read_servegen(tmp_path, "s", 50)) == 50
    again = read_servegen(tmp_path, "s", None, lasting_s=60.0)
    assert again.arrival_s[-1] <= 60


def test_what_is_wrong_is_named_by_line(tmp_path: Path) -> None:
    client(tmp_path, 0, "0,0,0,,0,0\n600,x,1.4,Gamma,0.5,0.5\n")
    with pytest.raises(InputError, match="line 2"):
        read_servegen(tmp_path, "s", None)
