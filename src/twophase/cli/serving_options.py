"""The options of a serving engine, which the verbs that run, simulate or advise one share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from twophase.calibration.calibrated import Calibration

PresetOption = Annotated[
    str,
    typer.Option("--preset", help="Whose rules and defaults: vllm, sglang, ours, static, prefill-first."),
]
RouterOption = Annotated[
    str, typer.Option("--router", help="round-robin, least-loaded, prefix-aware, power-of-two.")
]
MaxSequencesOption = Annotated[
    int | None,
    typer.Option("--max-sequences", "--max-num-seqs", metavar="N", help="Sequences that run at once."),
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-tokens-per-pass", "--max-num-batched-tokens", metavar="N", help="Budget of a pass."),
]
ContextLengthOption = Annotated[
    int | None, typer.Option("--context-length", "--max-model-len", metavar="N", help="The longest sequence.")
]
KvMemoryOption = Annotated[
    str | None,
    typer.Option("--kv-memory", metavar="BYTES", help="Size of the KV pool of a device: 2GiB."),
]
PrefixCacheOption = Annotated[
    bool, typer.Option("--prefix-cache/--no-prefix-cache", help="Find known beginnings again.")
]
AcceptanceOption = Annotated[
    float,
    typer.Option("--acceptance", metavar="A", help="Chance of a draft, where those before it were accepted."),
]
ClockOption = Annotated[
    Literal["floor", "curves", "served"] | None,
    typer.Option(
        "--clock",
        help="Passes by arithmetic alone, by kernels' measured curves, by engines' measured serving.",
        show_default="served where it was fitted, else curves",
    ),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="What `twophase calibrate` made of measured passes."),
]


def calibration_of(path: Path | None) -> "Calibration | None":
    if path is None:
        return None
    from twophase.calibration.kept import read_calibration

    return read_calibration(path)
