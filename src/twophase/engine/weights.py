"""Where a model's weights come from."""

from pathlib import Path

from twophase.engine.gguf_weights import open_gguf
from twophase.engine.random_weights import random_weights
from twophase.engine.safetensors_weights import open_safetensors
from twophase.engine.tensors import WeightSource
from twophase.errors import damaged
from twophase.model.spec import ModelSpec

__all__ = ["WeightSource", "open_weights", "random_weights"]


def open_weights(path: Path, spec: ModelSpec) -> WeightSource:
    """`path`: a Hugging Face directory or a GGUF file. Everything is checked before anything is read.

    InputError where a tensor is missing, misshapen, cut off, or of a type that we don't take.
    """
    with damaged(path):
        return open_safetensors(path, spec) if path.is_dir() else open_gguf(path, spec)
