"""Whether something fits in this machine's memory, asked before it is loaded."""

from pathlib import Path

import psutil

from twophase.errors import InputError

HEADROOM_BYTES = 200 << 20  # for the interpreter and compiled kernels


def available_bytes() -> int:
    """Memory that may still be taken: the machine's, or less where a control group limits us."""
    free = int(psutil.virtual_memory().available)
    limit, used, stat = (Path(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current", "stat"))
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        # What the kernel holds of files it can give back at any time.
        held = dict(line.split() for line in stat.read_text().splitlines())
        free = min(free, int(text) - int(used.read_text()) + int(held.get("inactive_file", 0)))
    return free


def require_memory(what: str, needed_bytes: int) -> None:
    """InputError where `what` needs more than there is."""
    needed, free = needed_bytes + HEADROOM_BYTES, available_bytes()
    if needed > free:
        raise InputError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB is available: "
            "take a smaller model or shorter sequences"
        )
