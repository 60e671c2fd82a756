"""From a name or a path to a model in memory, ready to run."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twophase.engine.default_model import HOW_TO_GET_IT, default_model_path
from twophase.engine.executor import Executor
from twophase.engine.kv import pool_bytes
from twophase.engine.loading import load_network, network_bytes, require_runnable
from twophase.engine.memory import require_memory
from twophase.engine.network import Compute, Network
from twophase.engine.weights import open_weights, random_weights
from twophase.errors import InputError
from twophase.kernels.rows import BLOCK_SIZE
from twophase.kernels.tile import HAS_BF16_DOT
from twophase.model.catalogue import catalogue, load_spec
from twophase.model.spec import ModelSpec

FALLBACK = "qwen3-0.6b"  # the shape that runs with random weights where the default isn't installed
Load = Literal["real", "random"]


@dataclass(frozen=True, slots=True)
class OpenModel:
    spec: ModelSpec
    network: Network
    kind: Load
    path: Path | None  # of its files; None for a catalogue name
    notes: tuple[str, ...]  # what a reader of its results must know

    def executor(
        self, *, positions: int, sequences: int, threads: int, stop_ids: Collection[int] = ()
    ) -> Executor:
        """Room for `sequences` sequences of `positions` tokens. InputError where memory is short."""
        blocks = sequences * -(-positions // BLOCK_SIZE)
        needed = pool_bytes(self.spec, blocks, self.network.arena.itemsize)
        require_memory(f"the KV cache of {sequences} x {positions} tokens", needed)
        return Executor(self.network, blocks, positions, threads, stop_ids)


def open_model(
    name: str | None,
    load: Load | None,
    compute: Compute,
    progress: Callable[[float], None] = lambda share: None,
) -> OpenModel:
    """`name`: a Hugging Face directory, a GGUF file or a catalogue name; None: the embedded default.

    `load` None: real weights, but random ones in place of a default that isn't installed. InputError where
    the model is unknown, damaged, not runnable or too large for the memory, before its weights are read.
    """
    notes = []
    if name is None:
        default = default_model_path()
        if default is None and load == "real":
            raise InputError(HOW_TO_GET_IT)
        if default is None:
            notes.append(f"The default model is not installed: {HOW_TO_GET_IT}.")
            load = "random"
        name = str(default) if default else FALLBACK
    path = None if name.lower() in catalogue() else Path(name).expanduser()
    spec = load_spec(name)
    require_runnable(spec)
    if path is None and load != "random":
        raise InputError(
            f"{name} names a shape, and no weights come with it: give a directory or a .gguf file, or "
            "--load random, which costs the same time"
        )
    require_memory(f"{spec.name} in {compute}", network_bytes(spec, compute))
    source = random_weights(spec) if path is None or load == "random" else open_weights(path, spec)
    network = load_network(source, spec, compute, progress)
    if source.kind == "random":
        notes.append("The weights are random: the shapes and so the speed are the model's, the text is not.")
    converted = [name for name in source.formats if name not in ("BF16", "F32", "F16")]
    if converted:
        notes.append(f"{', '.join(converted)} tensors were dequantised to {compute} on loading.")
    if compute == "bf16" and not HAS_BF16_DOT:
        notes.append(
            "This processor has no BF16 dot products: weights and KV cache are BF16, arithmetic is float32."
        )
    return OpenModel(spec, network, source.kind, path, tuple(notes))
