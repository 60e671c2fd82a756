"""The one error that a user causes: a line that says what is wrong and what would be right."""

from collections.abc import Iterable


class InputError(Exception):
    """Bad input. The command line prints its text as one line on stderr and exits with status 2."""


def nearest(name: str, names: Iterable[str]) -> str:
    """'; did you mean a, b?' with the names most like this one, to end an error's line; '' where none is."""
    from difflib import get_close_matches

    spelled = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), spelled, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(spelled[each] for each in close)}?" if close else ""
