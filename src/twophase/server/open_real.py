"""The real engine opened for the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twophase.engine.chat import load_chat_template, plain_chat
from twophase.engine.executor import Executor
from twophase.engine.kv import KVFormat, new_pool, pool_bytes
from twophase.engine.memory import available_bytes, require_memory
from twophase.engine.network import activation_bytes
from twophase.engine.open import FoundModel, OpenModel, load_model
from twophase.engine.tokenizer import load_tokenizer
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.probe import COMPUTES, cpu_name, machine_bytes, matmul_rate, read_rate
from twophase.kernels.cache import BLOCK_SIZE
from twophase.scheduler.clock import RealClock
from twophase.scheduler.request import Limits
from twophase.server.engine import OpenEngine, Sizes
from twophase.server.phases import price_on
from twophase.server.speculation import Speculation, drafter_of

PROBE_S = 0.2  # for each roof
POOL_SHARE = 0.25  # of the memory that is left, where nobody says how large the KV pool is
MOST_CONTEXT, MOST_SEQUENCES, MOST_TOKENS = 8192, 64, 256  # where nobody says
NO_TEMPLATE = "It has no chat template, as base models: chats are written as lines of role: text."
Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOptions:
    name: str
    threads: int
    sizes: Sizes
    kv: KVFormat
    speculation: Speculation | None = None


def open_real(found: FoundModel, options: RealOptions, report: Report) -> OpenEngine:
    """InputError where the model has no tokenizer or memory is short."""
    if found.path is None:
        raise InputError(
            f"{found.spec.name} has no tokenizer here: give its directory or a .gguf file, or serve a "
            "stand-in with --clock roofline"
        )
    tokenizer, template = load_tokenizer(found.path), load_chat_template(found.path)
    model = load_model(found, lambda share: report("loading weights", share))
    spec = model.spec
    limits = _limits(model, options)
    pool = new_pool(spec, limits.blocks, options.kv, limits.context_length)
    drafter = None
    if options.speculation is not None:
        report("loading what drafts", 1.0)
        drafter = drafter_of(
            options.speculation, model, limits.blocks, limits.context_length, options.threads
        )
    executor = Executor(model.network, pool, options.threads, drafter, prefix_cache=limits.prefix_cache)
    report("preparing kernels", 1.0)
    executor.warm_up()
    report("probing the roofs", 1.0)
    return OpenEngine(
        name=options.name,
        executor=executor,
        limits=limits,
        clock=ServingClock(),
        price=price_on(model.deployment(options.kv), _machine(model, options.threads)),
        tokenizer=tokenizer,
        vocabulary=spec.vocab_size,
        chat_template=template or _plain_template,
        template_has_bos=template is not None,
        notes=(*model.notes, *(() if template else (NO_TEMPLATE,))),
        kv_bytes=pool.bytes,
        facts={
            "block_size": str(BLOCK_SIZE),
            "cache_dtype": options.kv,
            "enable_prefix_caching": str(limits.prefix_cache),
            "num_gpu_blocks": str(limits.blocks),
        },
    )


class ServingClock(RealClock):
    lost_s = 0.0

    def rest(self) -> None:
        pass


def _limits(model: OpenModel, options: RealOptions) -> Limits:
    spec, sizes = model.spec, options.sizes
    context = sizes.context_length or min(spec.context_length, MOST_CONTEXT)
    if context > spec.context_length:
        raise InputError(
            f"--context-length {context}: the context window of {spec.name} is {spec.context_length} tokens"
        )
    sequences = sizes.max_sequences or MOST_SEQUENCES
    block_bytes = pool_bytes(spec, 1, options.kv)
    wanted = sizes.kv_pool_bytes or available_bytes() * POOL_SHARE
    blocks = sizes.blocks or min(int(wanted / block_bytes), sequences * -(-context // BLOCK_SIZE))
    if blocks < 1:
        raise InputError(f"a KV pool of {wanted:.0f} bytes has no room for one block of {block_bytes}")
    budget = sizes.max_tokens or max(MOST_TOKENS, sequences)
    verified = 1 + (options.speculation.most if options.speculation else 0)
    needed = blocks * block_bytes + activation_bytes(spec, budget, min(budget, sequences * verified))
    require_memory(f"a KV pool of {blocks} blocks beside passes of {budget} rows", needed)
    return Limits(
        blocks=blocks,
        context_length=context,
        max_sequences=sequences,
        max_tokens=budget,
        block_size=BLOCK_SIZE,
        prefix_cache=sizes.prefix_cache,
    )


def _machine(model: OpenModel, threads: int) -> Accelerator:
    """This machine's roofs, measured on the weights themselves."""
    compute, memory = model.network.compute, machine_bytes()
    for seconds in (0.0, PROBE_S):  # the first run compiles the probes
        peak = matmul_rate(compute, threads, seconds)
        bandwidth = read_rate(model.network.arena, threads, seconds)
    return Accelerator(
        name="this-machine",
        title=cpu_name(),
        vendor="",
        flops={COMPUTES[compute]: peak},
        memory_bytes=memory,
        marketed_bytes=memory,
        bandwidth=bandwidth,
        kind="measured",
    )


def _plain_template(messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
    return plain_chat(messages)
