"""The tokenizer that lies with a model: in its Hugging Face directory, or in its GGUF file."""

from pathlib import Path

from twophase.engine.gguf_tokenizer import gguf_tokenizer
from twophase.engine.hf_tokenizer import hf_tokenizer
from twophase.engine.text import Tokenizer
from twophase.errors import damaged

__all__ = ["Tokenizer", "load_tokenizer"]


def load_tokenizer(path: Path) -> Tokenizer:
    """`path`: a Hugging Face directory or a GGUF file. InputError where it has no tokenizer that we know."""
    with damaged(path):
        return hf_tokenizer(path) if path.is_dir() else gguf_tokenizer(path)
