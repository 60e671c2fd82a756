"""pytest puts this folder on the path, so that tests can import machine.py.

torch, whose small models are the truth of many tests, gets one thread: its own would spin beside ours.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
