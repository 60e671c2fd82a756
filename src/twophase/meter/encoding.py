"""From a talk to the calls that carry it: whole bodies, ready before they are due."""

from twophase.meter.dialect import Dialect, Message
from twophase.meter.prompts import Talk
from twophase.meter.records import Call


def first_call(
    talk: Talk, number: int, dialect: Dialect, point: str = "", scheduled_s: float | None = None
) -> Call:
    """The call of a talk's first turn."""
    return call_of(talk, 0, history_of(talk, ()), number, dialect, point, scheduled_s, None)


def next_call(talk: Talk, answers: tuple[str, ...], before: Call, dialect: Dialect) -> Call | None:
    """The call that continues a talk after so many answers; None where it has ended."""
    if len(answers) >= len(talk.turns):
        return None
    history = history_of(talk, answers)
    return call_of(talk, len(answers), history, before.number + 1, dialect, before.point, None, before.number)


def call_of(
    talk: Talk,
    turn: int,
    history: tuple[Message, ...],
    number: int,
    dialect: Dialect,
    point: str,
    scheduled_s: float | None,
    turn_of: int | None,
) -> Call:
    said = talk.turns[turn]
    body = dialect.body((*history, ("user", said.text)), said.max_tokens)
    return Call(number, body, said.max_tokens, said.prompt_tokens, point, scheduled_s, turn_of)


def history_of(talk: Talk, answers: tuple[str, ...]) -> tuple[Message, ...]:
    """All that was said before the next turn."""
    said: list[Message] = [*talk.before]
    for turn, answer in zip(talk.turns, answers, strict=False):
        said += [("user", turn.text), ("assistant", answer)]
    return tuple(said)
