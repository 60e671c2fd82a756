"""Every script of bench/ finds what it imports: most are run by hand, and seldom."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
IMPORT_ALL = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


def test_every_import_is_found() -> None:
    names = sorted(path.stem for path in BENCH.glob("*.py"))
    assert "tile" in names
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names], cwd=BENCH, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
