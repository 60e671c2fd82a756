"""Numbers as a reader wants them: three significant digits, a unit, thousands apart."""

from math import floor, log10

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def significant(value: float, digits: int = 3) -> str:
    """Rounded to significant digits, never in exponent form: 0.0123, 1.25, 12.5, 1,250."""
    if value == 0:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - floor(log10(abs(rounded)))  # 9.996 has become 10.0
    return f"{rounded:,.{max(decimals, 0)}f}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them: 850 µs, 31.0 ms, 2.28 s, 3.50 min."""
    for size, unit in ((60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= size * (2 if unit == "min" else 1):
            return f"{significant(seconds / size)} {unit}"
    return f"{significant(seconds / 1e-6)} µs" if seconds else "0 s"


def milliseconds(seconds: float) -> str:
    """A table cell under a heading in ms: 9.87, 45.2, 1,234."""
    value = seconds * 1e3
    if value < 1:
        return significant(value)
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def quantity(value: float, unit: str) -> str:
    """A value with its SI prefix: 35.0 GB/s, 415 GFLOP/s, 18.4 kB."""
    for size, prefix in PREFIXES:
        if value >= size:
            return f"{significant(value / size)} {prefix}{unit}"
    return f"{significant(value)} {unit}"


def percent(share: float) -> str:
    """A share of one, with a decimal only where a whole percent would hide it."""
    value = share * 100
    return f"{value:.1f}%" if 0 < value < 1 or 99.5 <= value < 100 else f"{value:.0f}%"


def times(factor: float) -> str:
    return f"{factor:.2f}×" if factor < 10 else f"{factor:.0f}×"


def count(number: float) -> str:
    return f"{number:,.0f}"


def plural(number: float, what: str) -> str:
    """1 request, 1,250 requests; of what an s makes many of."""
    return f"{count(number)} {what}{'' if number == 1 else 's' if what[-1] != 's' else 'es'}"
