"""One table of a TOML data file, without the time that parsing all the others takes."""

import re
import tomllib
from typing import Any

# ["name"] or [name], or with more behind it, which is a table inside: [name.sources].
HEADER = re.compile(r'^\[(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[\w-]+))(?P<inside>\.[^\]\n]+)?\]$', re.MULTILINE)


def table_of(text: str, name: str) -> dict[str, Any] | None:
    """The top-level table of that name with the tables inside it, which must follow it; None without one."""
    tops = [header for header in HEADER.finditer(text) if not header["inside"]]
    for header, after in zip(tops, [*tops[1:], None], strict=True):
        if (header["quoted"] or header["bare"]) == name:
            own = tomllib.loads(text[header.start() : after.start() if after else None])
            found: dict[str, Any] = own[name]
            return found
    return None
