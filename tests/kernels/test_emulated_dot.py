"""What a processor with AVX512-BF16 would run, but for the one instruction, on any machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_the_path_with_bf16_activations(tmp_path: Path) -> None:
    suites = [HERE / "test_linear.py", HERE / "test_attention.py", HERE.parent / "engine" / "test_network.py"]
    done = subprocess.run(
        [sys.executable, HERE / "emulated_dot.py", *suites, "-k", "bf16"],
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},  # kernels of their own
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
