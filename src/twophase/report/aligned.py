"""A table as plain text, its columns as wide as their widest cell."""

from collections.abc import Collection, Sequence


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str], between: str = " "
) -> list[str]:
    """A line for the heads and for each row; `left`: the heads whose columns are aligned to the left."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        between.join(
            f"{cell:<{width}}" if head in left else f"{cell:>{width}}"
            for head, cell, width in zip(heads, row, widths, strict=True)
        ).rstrip()
        for row in table
    ]
