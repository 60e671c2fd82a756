"""How the rows of a product are shared out: blocks of rows of one expert."""

from typing import Any

from twophase.kernels.compiling import kernel

EXPERT, FIRST_ROW, LAST_ROW, FIRST_TILE = range(4)  # columns of a block


@kernel
def blocks_of(starts: Any, least: int, most: int, block_rows: int, tile_rows: int, blocks: Any) -> Any:
    """Blocks of at most block_rows rows of the experts that have least..most rows; how many, and their tiles.

    starts: [experts + 1]; blocks: [enough, 4].
    """
    count, tile = 0, 0
    for expert in range(len(starts) - 1):
        first, rows = starts[expert], starts[expert + 1] - starts[expert]
        if least <= rows <= most:
            parts = -(-rows // block_rows)
            for part in range(parts):
                begin, end = first + rows * part // parts, first + rows * (part + 1) // parts
                blocks[count, EXPERT], blocks[count, FIRST_ROW], blocks[count, LAST_ROW] = expert, begin, end
                blocks[count, FIRST_TILE] = tile
                tile += -(-(end - begin) // tile_rows)
                count += 1
    return count, tile
