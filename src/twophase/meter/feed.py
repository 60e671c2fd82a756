"""Sessions in order, their first requests encoded before they are due."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from twophase.meter.dialect import Dialect
from twophase.meter.encoding import first_call, next_call
from twophase.meter.prompts import Recipe, Talk
from twophase.meter.records import Call

AHEAD = 1024  # requests that wait encoded, at most
AHEAD_BYTES = 32 << 20


@dataclass(slots=True)
class Session:
    """A call, and the talk that it opens: None where it stands alone."""

    call: Call
    talk: Talk | None = None
    answers: list[str] = field(default_factory=list)

    def following(self, dialect: Dialect) -> Call | None:
        """The call of the next turn, once the last answer has been added; None where the talk has ended."""
        if self.talk is None:
            return None
        call = next_call(self.talk, tuple(self.answers), self.call, dialect)
        if call is not None:
            self.call = call
        return call


def sessions_of(
    recipe: Recipe, dialect: Dialect, point: str, numbers: Iterator[int], turns: int
) -> Iterator[Session]:
    """Sessions of so many turns, whose calls are numbered one after the other."""
    for number in numbers:
        talk = recipe(number)
        call = first_call(talk, number * turns, dialect, point)
        yield Session(call, talk if len(talk.turns) > 1 else None)


class Feed:
    """Hands out sessions; what is taken is made up for by `fill`, when there is time."""

    def __init__(self, sessions: Iterator[Session]) -> None:
        self.sessions = sessions
        self.ready: deque[Session] = deque()
        self.bytes = 0
        self.ended = False

    def fill(self, most: int = AHEAD) -> None:
        """Encode up to so many more."""
        for _ in range(most):
            if self.ended or len(self.ready) >= AHEAD or self.bytes >= AHEAD_BYTES:
                return
            session = next(self.sessions, None)
            if session is None:
                self.ended = True
                return
            self.ready.append(session)
            self.bytes += len(session.call.body)

    def take(self) -> Session | None:
        if not self.ready:
            self.fill(1)
        if not self.ready:
            return None
        session = self.ready.popleft()
        self.bytes -= len(session.call.body)
        return session
