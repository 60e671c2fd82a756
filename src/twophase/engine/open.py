"""From a name or a path to a model in memory, ready to run."""

import os.path
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twophase.cost.deployment import Deployment
from twophase.engine.default_model import HOW_TO_GET_IT, default_model_path
from twophase.engine.executor import Executor
from twophase.engine.kv import KVFormat, new_pool, pool_bytes
from twophase.engine.loading import load_network, network_bytes
from twophase.engine.memory import require_memory
from twophase.engine.network import Compute, Network, activation_bytes
from twophase.engine.packer import Format
from twophase.engine.runnable import require_runnable
from twophase.engine.storage import deployment_of
from twophase.engine.weights import open_weights, random_weights
from twophase.errors import InputError
from twophase.kernels.cache import BLOCK_SIZE
from twophase.kernels.tile import HAS_BF16_DOT
from twophase.model.catalogue import entry_of, load_spec
from twophase.model.spec import ModelSpec

FALLBACK = "qwen3-0.6b"  # the shape that runs with random weights where the default isn't installed
BATCH = 16  # sequences whose logits there is always room for
PLAIN_FORMATS = ("BF16", "F16", "F32")
Load = Literal["real", "random"]


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that can be loaded: it is known, it can run here, and its weights fit."""

    spec: ModelSpec
    load: Load
    path: Path | None  # of its files; None for a catalogue name
    compute: Compute
    weights: Format  # that matrices are kept in
    notes: tuple[str, ...]  # what a reader of its results must know


@dataclass(frozen=True, slots=True)
class OpenModel:
    spec: ModelSpec
    network: Network
    weights: Format
    load: Load
    notes: tuple[str, ...]

    def deployment(self, kv: KVFormat | None = None) -> Deployment:
        """What the cost model counts; `kv`: by default the compute type."""
        compute = self.network.compute
        return deployment_of(self.spec, compute, self.weights, kv or compute)

    def executor(
        self, *, positions: int, sequences: int, threads: int, kv: KVFormat | None = None
    ) -> Executor:
        """Room for `sequences` sequences of `positions` tokens. InputError where memory is short."""
        blocks = sequences * -(-positions // BLOCK_SIZE)
        kept = kv or self.network.compute
        needed = pool_bytes(self.spec, blocks, kept)
        needed += activation_bytes(self.spec, positions, max(sequences, BATCH))
        require_memory(f"running {sequences} x {positions} tokens", needed)
        return Executor(self.network, new_pool(self.spec, blocks, kept, positions), threads)


def find_model(
    name: str | None, load: Load | None, compute: Compute, weights: Format | None = None
) -> FoundModel:
    """`name`: a Hugging Face directory, a GGUF file or a catalogue name; None: the embedded default.

    `load` None: real weights, but random ones in place of a default that isn't installed. `weights`: what
    matrices are rounded to while they are read, by default the compute type. InputError where the model is
    unknown, not runnable, or too large for the memory.
    """
    notes = []
    if name is None:
        default = default_model_path()
        if default is None and load == "real":
            raise InputError(f"the default model is not installed: {HOW_TO_GET_IT}")
        if default is None:
            notes.append(f"The default model is not installed: {HOW_TO_GET_IT}.")
            load = "random"
        name = str(default) if default else FALLBACK
    path = None if entry_of(name) else Path(os.path.expanduser(name))
    if path is not None and path.name == "config.json":
        path = path.parent
    spec = load_spec(name)
    require_runnable(spec)
    if path is None and load != "random":
        raise InputError(
            f"{name} names a shape, and no weights come with it: give a directory or a .gguf file, or "
            "--load random, which takes the same time"
        )
    kept = weights or compute
    require_memory(f"{spec.name} in {kept}", network_bytes(spec, compute, kept))
    return FoundModel(spec, load or "real", path, compute, kept, tuple(notes))


def load_model(found: FoundModel, progress: Callable[[float], None] = lambda share: None) -> OpenModel:
    """Read and pack its weights. InputError where a file is damaged or lacks something."""
    spec, compute, notes = found.spec, found.compute, list(found.notes)
    if found.path is None or found.load == "random":
        source = random_weights(spec)
        notes.append("The weights are random: shapes and speed are the model's, the text is not.")
    else:
        source = open_weights(found.path, spec)
    network = load_network(source, spec, compute, progress, weights=found.weights)
    if quantised := [name for name in source.formats if name not in PLAIN_FORMATS]:
        notes.append(f"{', '.join(quantised)} tensors were converted to {found.weights} on loading.")
    if compute == "bf16" and not HAS_BF16_DOT:
        notes.append("This processor has no BF16 dot products: activations and arithmetic are float32.")
    return OpenModel(spec, network, found.weights, source.kind, tuple(notes))


def require_window(spec: ModelSpec, prompt_tokens: int, output_tokens: int) -> None:
    """InputError where a request is empty, or longer than the model's context window."""
    if not prompt_tokens:
        raise InputError("the prompt has no tokens: give some text")
    if prompt_tokens + output_tokens > spec.context_length:
        raise InputError(
            f"{prompt_tokens} tokens in and {output_tokens} out are more than the context window of "
            f"{spec.name}, {spec.context_length} tokens"
        )
