"""twophase serve: an OpenAI-compatible server, on the real engine or on a clock made of arithmetic."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.deployment import (
    DpOption,
    EpOption,
    HardwareOption,
    KVOption,
    PpOption,
    TpOption,
    WeightsOption,
    deployment_of,
    loaded,
)
from twophase.cli.engine import kept_formats
from twophase.cli.fit import bytes_of
from twophase.cli.needs import needs
from twophase.cli.options import (
    ComputeOption,
    LoadOption,
    ModelArgument,
    ThreadsOption,
    positive,
    threads_of,
)
from twophase.cli.progress import compiling_shown, progress_bar
from twophase.cli.serving_options import (
    ContextLengthOption,
    KvMemoryOption,
    MaxSequencesOption,
    MaxTokensOption,
    PrefixCacheOption,
    calibration_of,
)
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.server.engine import OpenEngine

LARGEST = 100_000_000
CLOCKS = {  # options that only one of them knows
    "real": ("load", "compute", "threads", "speculate"),
    "roofline": ("gpu", "hardware", "tp", "pp", "ep", "dp", "speed", "tokenizer", "calibration"),
}


def serve(
    context: typer.Context,
    model: ModelArgument = None,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(envvar="TWOPHASE_API_KEY", help="Clients must bring it; may be given more than once."),
    ] = None,
    served_model_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What clients call it.", show_default="the model's name"),
    ] = None,
    load: LoadOption = None,
    compute: ComputeOption = "bf16",
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    threads: ThreadsOption = None,
    max_queue: Annotated[
        int, typer.Option(metavar="N", help="Sequences that may wait; beyond them, 429 at once.")
    ] = 512,
    max_sequences: MaxSequencesOption = None,
    max_tokens_per_pass: MaxTokensOption = None,
    context_length: ContextLengthOption = None,
    kv_blocks: Annotated[int | None, typer.Option(metavar="N", help="KV blocks of 16 tokens.")] = None,
    kv_memory: KvMemoryOption = None,
    policy: Annotated[
        str,
        typer.Option(
            help="Who goes first: decode-first, prefill-first, static, priority, shortest-first, or as vllm "
            "or sglang does.",
        ),
    ] = "decode-first",
    prefix_cache: PrefixCacheOption = True,
    speculate: Annotated[
        str | None, typer.Option(metavar="HOW", help="Draft tokens: ngram:K, or draft:MODEL:K.")
    ] = None,
    clock: Annotated[
        Literal["real", "roofline"],
        typer.Option(help="roofline: no model; passes take an accelerator's time, tokens are filler."),
    ] = "real",
    gpu: Annotated[str, typer.Option("--gpu", metavar="NAME", help="With --clock roofline.")] = "h100-sxm",
    hardware: HardwareOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    speed: Annotated[
        float, typer.Option(metavar="FACTOR", help="With --clock roofline: its seconds in one of ours.")
    ] = 1.0,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="With --clock roofline: count tokens with a real tokenizer."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --clock roofline: passes take what `twophase calibrate` made of measured ones.",
        ),
    ] = None,
    drain_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long running requests may finish after SIGTERM.")
    ] = 30.0,
    max_body: Annotated[str, typer.Option(metavar="BYTES", help="The largest request body.")] = "8MiB",
    metrics_prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Of the names at /metrics; vllm fits vLLM's dashboards.")
    ] = "twophase",
) -> int | None:
    """Serve a model over HTTP as OpenAI's API does, with live counters of both phases at /metrics.

    Without MODEL: the embedded default, Gemma 3 270M, a base model.
    """
    for needed, names in CLOCKS.items():
        for name in names if needed != clock else ():
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                raise InputError(f"--{name}: only with --clock {needed}")
    for option, count, least in (
        ("--max-sequences", max_sequences, 1),
        ("--max-tokens-per-pass", max_tokens_per_pass, 1),
        ("--context-length", context_length, 2),
        ("--kv-blocks", kv_blocks, 1),
    ):
        if count is not None and not least <= count <= LARGEST:
            raise InputError(f"{option} {count}: it must be a whole number from {least} to {LARGEST:,}")
    if kv_blocks is not None and kv_memory is not None:
        raise InputError("--kv-blocks and --kv-memory say the same: give one of them")
    if not 0 <= max_queue <= LARGEST:
        raise InputError(f"--max-queue {max_queue}: it must be 0 or more")
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: it must be from 0 to 65535")
    if any(not key or not key.isascii() for key in api_key or ()):
        raise InputError("--api-key: it must be ASCII letters, and at least one")
    positive("--speed", speed)
    positive("--drain-timeout", drain_timeout)
    if not (
        metrics_prefix.isascii()
        and metrics_prefix.replace("_", "a").isalnum()
        and metrics_prefix[0].isalpha()
    ):
        raise InputError(f"--metrics-prefix {metrics_prefix}: letters, digits and underscores, like vllm")
    from twophase.scheduler.scheduler import policy_named

    policy_named(policy)
    body = bytes_of("--max-body", max_body)
    pool = bytes_of("--kv-memory", kv_memory)
    cores = threads_of(threads)

    with needs("server"):
        from twophase.server.app import new_app
        from twophase.server.engine import Sizes
        from twophase.server.running import address_of, bind
        from twophase.server.running import serve as run
        from twophase.server.service import Service

    sizes = Sizes(
        context_length=context_length,
        max_sequences=max_sequences,
        max_tokens=max_tokens_per_pass,
        blocks=kv_blocks,
        kv_pool_bytes=pool,
        prefix_cache=prefix_cache,
    )
    # Before the loading, so that a port in use is told at once.
    with closing(bind(host, port)) as listening:
        with progress_bar() as report:
            if clock == "roofline":
                from twophase.cost.parallel import Plan
                from twophase.hardware.catalogue import load_accelerator
                from twophase.server.open_standin import StandInOptions, open_standin

                if model is None:
                    raise InputError("--clock roofline: give a MODEL, such as llama-3.1-8b")
                own = loaded(model, weights)
                engine: OpenEngine = open_standin(
                    own,
                    deployment_of(own, kv, None, Plan(tp, pp, ep, dp)),
                    load_accelerator(gpu, hardware),
                    StandInOptions(
                        name=served_model_name or model,
                        kv=kv,
                        speed=speed,
                        tokenizer=tokenizer,
                        sizes=sizes,
                        calibration=calibration_of(calibration),
                    ),
                )
            else:
                with needs("engine"):
                    from twophase.engine.open import find_model
                    from twophase.server.open_real import RealOptions, open_real
                    from twophase.server.speculation import speculation_of

                kept_weights, kept_kv = kept_formats(weights, kv, compute)
                drafts = None if speculate is None else speculation_of(speculate)
                found = find_model(model, load, compute, kept_weights)
                options = RealOptions(
                    name=served_model_name or _name_of(model, found.path),
                    threads=cores,
                    sizes=sizes,
                    kv=kept_kv,
                    speculation=drafts,
                )
                with compiling_shown(report):
                    engine = open_real(found, options, report)
            service = Service(engine, max_queue, policy)
        app = new_app(service, api_keys=api_key or (), max_body=int(body or 0), metrics_prefix=metrics_prefix)
        ready = _announcement(engine, address_of(listening), bool(api_key))
        finished = run(app, service, listening, drain_timeout, ready)
    return None if finished else 130


def _name_of(model: str | None, path: Path | None) -> str:
    """A file's name, or its directory's; what a catalogue calls it."""
    if path is None:
        return model or "default"
    return path.stem if path.suffix == ".gguf" else path.resolve().name


def _announcement(engine: "OpenEngine", address: str, keyed: bool) -> Callable[[], None]:
    limits = engine.limits
    key = " -H 'Authorization: Bearer KEY'" if keyed else ""
    asked = '{"prompt": "Once upon a time", "max_tokens": 32}'
    lines = [
        *engine.notes,
        f"{engine.name} at {address}: KV pool of {limits.blocks * limits.block_size:,} tokens "
        f"({engine.kv_bytes / 2**30:.2f} GiB), up to {limits.max_sequences} sequences of {engine.longest:,}",
        f"curl {address}/v1/completions{key} -H 'Content-Type: application/json' -d '{asked}'",
    ]

    def announce() -> None:
        print("\n".join(lines), flush=True)

    return announce
