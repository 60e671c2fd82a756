"""What processors with AVX512-VNNI, or with neither that nor AVX2, make of rows of 8 bits, on any machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["vnni", "plain"])
def test_the_sums_are_the_same(processor: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "emulated_bytes.py", processor, HERE / "test_linear.py", "-k", "a8"],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},  # kernels of their own
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
