"""From a name or a path to a model in memory, ready to run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twophase.engine.executor import Executor
from twophase.engine.kv import pool_bytes
from twophase.engine.memory import require_memory
from twophase.engine.network import Compute, Network
from twophase.engine.tokenizer import Tokenizer
from twophase.kernels.rows import BLOCK_SIZE
from twophase.model.spec import ModelSpec

FALLBACK = "qwen3-0.6b"  # whose shape runs with random weights where the default model isn't installed


@dataclass(frozen=True, slots=True)
class OpenModel:
    spec: ModelSpec
    network: Network
    kind: Literal["real", "random"]
    path: Path | None  # where the weights came from, and the tokenizer will
    notes: tuple[str, ...]  # what a reader of its results must know

    def executor(self, *, positions: int, sequences: int, threads: int) -> Executor:
        """Room for `sequences` sequences of `positions` tokens. InputError where memory is short."""
        blocks = sequences * -(-positions // BLOCK_SIZE)
        needed = pool_bytes(self.spec, blocks, self.network.arena.itemsize)
        require_memory(f"the KV cache of {sequences} x {positions} tokens", needed)
        return Executor(self.network, blocks, positions, threads)

    def tokenizer(self) -> Tokenizer:
        """InputError where there is none: random weights, or a file that is missing."""


def open_model(
    name: str | None,
    load: Literal["real", "random"] | None,
    compute: Compute,
    progress: Callable[[float], None] = lambda share: None,
) -> OpenModel:
    """`name`: a Hugging Face directory, a GGUF file, a catalogue name, or None for the embedded default."""
