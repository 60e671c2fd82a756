"""The index of families says what the modules hold, and reading one model imports one module."""

import subprocess
import sys
from importlib import import_module

import pytest

from twophase.model.families import MODULES, READERS, defaults


@pytest.mark.parametrize("module", MODULES)
def test_each_module_holds_what_the_index_says(module: str) -> None:
    own = import_module(f"twophase.model.families.{module}").READERS
    assert list(own) == MODULES[module]
    assert all(READERS[each] is reader for each, reader in own.items())


def test_no_model_type_is_read_twice() -> None:
    assert len(READERS) == sum(map(len, MODULES.values()))


def test_defaults_are_of_known_families() -> None:
    assert set(defaults()) - {"source"} <= set(READERS)


def test_a_model_is_read_without_the_other_families() -> None:
    code = (
        "import sys; from twophase.model.catalogue import load_model; load_model('llama-3-8b');"
        "print(sorted(m for m in sys.modules if m.startswith('twophase.model.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "families.llama" in loaded
    for other in ("families.gpt", "families.moe", "model.vision", "gguf_header", "quantization_methods"):
        assert other not in loaded
