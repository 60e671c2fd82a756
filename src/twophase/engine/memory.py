"""Whether something fits in this machine's memory, asked before it is loaded."""

from pathlib import Path

import psutil

from twophase.errors import InputError

HEADROOM_BYTES = 300 << 20  # of the interpreter, compiled kernels and a pass's activations


def available_bytes() -> int:
    """Memory that may still be taken: the machine's, or less where a control group limits us."""
    free = int(psutil.virtual_memory().available)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    return free


def require_memory(what: str, needed_bytes: int) -> None:
    """InputError where `what` needs more than there is."""
    needed, free = needed_bytes + HEADROOM_BYTES, available_bytes()
    if needed > free:
        raise InputError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB is available: "
            "take a smaller model or shorter sequences"
        )
