"""What experts dealt out over data-parallel ranks take of a pass, beside what a rank's own rows take.

Of a rank's PassTimes, by the rows of each rank where all have equally many: `rows_s` and its FLOPs and bytes
contain these.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXPERTS_S, EXCHANGES_S, EXPERTS_FLOPS, EXPERTS_BYTES = range(4)  # places in Dealt


class Dealt(NamedTuple):
    """All [rows + 1]."""

    experts_s: Floats
    exchanges_s: Floats
    experts_flops: Floats  # of the rank's devices together, as in PassTimes
    experts_bytes: Floats

    def taking(self, experts_s: Floats, exchanges_s: Floats) -> "Dealt":
        return self._replace(experts_s=experts_s, exchanges_s=exchanges_s)
