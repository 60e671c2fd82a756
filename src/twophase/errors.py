"""The one error that a user causes: a line that says what is wrong and what would be right."""

from collections.abc import Iterable


class InputError(Exception):
    """Bad input. The command line prints its text as one line on stderr and exits with status 2."""


def nearest(name: str, names: Iterable[str]) -> str:
    """'; did you mean a, b?' with the names most like this one, to end an error's line; '' where none is."""
    from difflib import get_close_matches

    wanted = name.strip().lower()
    spelled = {each.lower(): each for each in names}
    begin_so = [each for each in spelled if wanted and each.startswith(wanted)]
    close = [each for each in get_close_matches(wanted, spelled, n=3, cutoff=0.5) if each not in begin_so]
    found = (begin_so + close)[:3]
    return f"; did you mean {', '.join(spelled[each] for each in found)}?" if found else ""
