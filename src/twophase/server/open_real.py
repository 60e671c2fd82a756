"""The real engine opened for the server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twophase.cost.deployment import Deployment, as_bits
from twophase.engine.chat import Messages, load_chat_template, plain_chat
from twophase.engine.executor import Executor
from twophase.engine.kv import new_pool, pool_bytes
from twophase.engine.memory import available_bytes
from twophase.engine.open import FoundModel, load_model
from twophase.engine.tokenizer import load_tokenizer
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.probe import COMPUTES, cpu_name, machine_bytes, matmul_rate, read_rate
from twophase.kernels.cache import BLOCK_SIZE
from twophase.scheduler.clock import RealClock
from twophase.scheduler.request import Limits
from twophase.server.engine import OpenEngine, Sizes
from twophase.server.phases import price_on

PROBE_S = 0.2  # for each roof
POOL_SHARE = 0.25  # of the memory that is left, where nobody says how large the KV pool is
MOST_CONTEXT, MOST_SEQUENCES, MOST_TOKENS = 8192, 64, 512  # where nobody says
NO_TEMPLATE = "It has no chat template, as base models: chats are written as lines of role: text."
Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOptions:
    name: str
    threads: int
    sizes: Sizes


def open_real(found: FoundModel, options: RealOptions, report: Report) -> OpenEngine:
    """InputError where the model has no tokenizer or memory is short."""
    if found.path is None:
        raise InputError(
            f"{found.spec.name} has no tokenizer here: give its directory or a .gguf file, or serve a "
            "stand-in with --clock roofline"
        )
    sizes = options.sizes
    tokenizer = load_tokenizer(found.path)
    template = load_chat_template(found.path)
    model = load_model(found, lambda share: report("loading weights", share))
    spec, item_bytes = model.spec, model.network.arena.itemsize
    context = sizes.context_length or min(spec.context_length, MOST_CONTEXT)
    sequences = sizes.max_sequences or MOST_SEQUENCES
    block_bytes = pool_bytes(spec, 1, item_bytes)
    blocks = sizes.blocks or int((sizes.kv_pool_bytes or available_bytes() * POOL_SHARE) / block_bytes)
    blocks = min(blocks, sequences * -(-context // BLOCK_SIZE))
    if blocks < 1:
        raise InputError(f"the KV pool has no room for one block, which takes {block_bytes} bytes: give more")
    pool = new_pool(spec, blocks, model.network.compute, context)
    executor = Executor(model.network, pool, options.threads)
    report("preparing kernels", 1.0)
    executor.warm_up()
    report("probing the roofs", 1.0)
    for seconds in (0.0, PROBE_S):  # the first run compiles the probes
        peak = matmul_rate(found.compute, options.threads, seconds)
        bandwidth = read_rate(model.network.arena, options.threads, seconds)
    machine = Accelerator(
        name="this-machine",
        title=cpu_name(),
        vendor="",
        flops={COMPUTES[found.compute]: peak},
        memory_bytes=machine_bytes(),
        marketed_bytes=machine_bytes(),
        bandwidth=bandwidth,
        kind="measured",
    )
    return OpenEngine(
        name=options.name,
        executor=executor,
        limits=Limits(
            blocks=blocks,
            context_length=context,
            max_sequences=sequences,
            max_tokens=sizes.max_tokens or max(MOST_TOKENS, sequences),
            block_size=BLOCK_SIZE,
        ),
        clock=ServingClock(),
        price=price_on(Deployment(spec, as_bits(item_bytes), item_bytes), machine),
        tokenizer=tokenizer,
        vocabulary=spec.vocab_size,
        chat_template=template or plain_template,
        notes=(*model.notes, *(() if template else (NO_TEMPLATE,))),
        kv_bytes=executor.pool.bytes,
        facts={
            "block_size": str(BLOCK_SIZE),
            "cache_dtype": "bf16" if item_bytes == 2 else "float32",
            "enable_prefix_caching": str(sizes.prefix_cache),
            "num_gpu_blocks": str(blocks),
        },
    )


def plain_template(messages: Messages, **more: Any) -> str:
    return plain_chat(messages)


class ServingClock(RealClock):
    lost_s = 0.0

    def rest(self) -> None:
        pass
