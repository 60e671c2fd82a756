"""How a model is asked to be served, and what stands for all that was not said."""

from dataclasses import dataclass

from twophase.cost.parallel import ALONE, Plan
from twophase.errors import InputError
from twophase.fit.reserves import Engine, Reserves, profiled
from twophase.hardware.accelerator import Accelerator
from twophase.model.formats import KV_FORMATS
from twophase.model.spec import ModelSpec

BLOCK_TOKENS: dict[Engine, int] = {"vllm": 16, "sglang": 1, "trtllm": 32, "plain": 1}
UTILIZATION = 0.9  # of an engine whose version is not said

# vLLM before 0.8 profiles one whole prompt, in chunks only where it may be longer than 32,768 tokens.
V0_LEAST_TOKENS, V0_LONGEST, V0_CHUNK, V0_SEQUENCES = 2048, 32768, 512, 256


@dataclass(frozen=True, slots=True)
class Serving:
    """What is None is counted, estimated, or the engine's default. Bytes are a device's."""

    engine: Engine = "vllm"
    version: str | None = None
    plan: Plan = ALONE
    kv: str = "bf16"
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    prefix_caching: bool = True
    kv_pool_bytes: float | None = None
    weights_bytes: float | None = None
    activation_bytes: float | None = None
    non_torch_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The same with every default filled in."""

    utilization: float
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    block_size: int


def settings_of(own: Serving, spec: ModelSpec, accelerator: Accelerator, constants: Reserves) -> Settings:
    """InputError where an option is out of range."""
    assumed = UTILIZATION if own.engine == "vllm" and own.version is None else constants.utilization
    utilization = assumed if own.utilization is None else own.utilization
    if not 0 < utilization <= 1:
        raise InputError(f"--gpu-memory-utilization {utilization:g}: a share, above 0 and at most 1")
    if own.kv not in KV_FORMATS:
        raise InputError(f"--kv {own.kv}: it must be one of {', '.join(KV_FORMATS)}")
    length = own.max_model_len or spec.context_length
    tokens, sequences = profiled(accelerator)
    if constants.profiles_longest:
        tokens = max(length, V0_LEAST_TOKENS) if length <= V0_LONGEST else V0_CHUNK
        sequences = V0_SEQUENCES
    return Settings(
        utilization=utilization,
        max_model_len=length,
        max_num_batched_tokens=own.max_num_batched_tokens or tokens,
        max_num_seqs=own.max_num_seqs or sequences,
        block_size=own.block_size or BLOCK_TOKENS[own.engine],
    )
