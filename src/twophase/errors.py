"""The one error that a user causes: a line that says what is wrong and what would be right."""


class InputError(Exception):
    """Bad input. The command line prints its text as one line on stderr and exits with status 2."""
