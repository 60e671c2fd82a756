"""All compiled loops called once, before processes are started that would each compile them."""

import numpy as np

from twophase.scheduler.compiling import can_compile
from twophase.simulate import compiling, linking
from twophase.simulate.run import simulate
from twophase.workload.workload import Workload


def kept() -> bool:
    """They need no compiling: their files lie there, which are written at the end of it; or they can't be."""
    folders = {"serve": compiling.folder(), "serve_together": linking.folder()}
    return not can_compile() or all(any(folder.rglob(f"*.{name}-*.nbi")) for name, folder in folders.items())


def rehearse() -> None:
    workload = Workload(np.zeros(2), np.full(2, 8), np.full(2, 2))
    for replicas in (1, 2):
        simulate("llama-3.1-8b", "h100-sxm", workload, replicas=replicas)
