"""The options that say what is asked of a server, which the verbs that load one share."""

from typing import Annotated, Literal

import typer

ArrivalsOption = Annotated[
    Literal["poisson", "constant", "gamma"], typer.Option("--arrivals", help="How requests of a rate come.")
]
BurstinessOption = Annotated[
    float,
    typer.Option("--burstiness", metavar="B", help="Of gamma arrivals: below 1 bursts, above 1 evens out."),
]
SpeedupOption = Annotated[
    float, typer.Option("--speedup", metavar="FACTOR", help="Replay a trace so much faster.")
]
SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out a trace's malformed lines, and count them.")
]
FORMS = "512, normal:512,64, lognormal:512,0.5, uniform:128,1024."
PromptTokensOption = Annotated[str, typer.Option("--prompt-tokens", metavar="LENGTH", help=FORMS)]
OutputTokensOption = Annotated[
    str, typer.Option("--output-tokens", metavar="LENGTH", help="In the same forms.")
]
PrefixTokensOption = Annotated[
    int,
    typer.Option(
        "--prefix-tokens", metavar="N", help="A prefix that prompts share, in front of their own tokens."
    ),
]
PrefixesOption = Annotated[int, typer.Option("--prefixes", metavar="K", help="How many different ones.")]
TurnsOption = Annotated[int, typer.Option("--turns", metavar="N", help="Turns of each conversation.")]
