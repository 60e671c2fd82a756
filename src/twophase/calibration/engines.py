"""What engines add to their kernels: host work for each pass and sequence, rows padded to captured graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError, nearest

Found = TypeVar("Found")
# vLLM's sizes of captured CUDA graphs: 1, 2, 4, then by 8 to 256, by 16 to 512
GRAPHS = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))


@dataclass(frozen=True, slots=True)
class Engine:
    pass_s: float  # that the host adds to each pass, not hidden behind the device
    sequence_s: float  # and for each sequence
    graphs: tuple[int, ...] = GRAPHS  # rows of decode passes are padded to these


# Set by hand. What engines were measured to add stands in served.toml
ENGINES = {
    "vllm": Engine(pass_s=0.6e-3, sequence_s=4e-6),
    "sglang": Engine(pass_s=0.4e-3, sequence_s=3e-6),
    "trtllm": Engine(pass_s=0.3e-3, sequence_s=2e-6),
    "none": Engine(pass_s=0.0, sequence_s=0.0, graphs=()),  # kernels alone
}


def find_engine(name: str, known: Mapping[str, Found]) -> Found:
    """However it is spelled; InputError names those that are known."""
    found = known.get(plain_name(name))
    if found is None:
        raise InputError(f"no engine is called {name!r}{nearest(name, known)}: one of {', '.join(known)}")
    return found


def plain_name(engine: str) -> str:
    """TensorRT-LLM is trtllm."""
    return engine.lower().replace("-", "").replace("tensorrtllm", "trtllm")


def padded(rows: NDArray[np.float64], graphs: tuple[int, ...]) -> NDArray[np.float64]:
    """Rows of a pass that replays a captured graph; beyond the largest, as they are."""
    if not graphs:
        return rows
    sizes = np.array(graphs, np.float64)
    at = np.searchsorted(sizes, rows)
    return np.where(at < len(sizes), np.where(rows > 0, sizes[np.minimum(at, len(sizes) - 1)], 0.0), rows)
