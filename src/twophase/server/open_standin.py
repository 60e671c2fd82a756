"""The stand-in opened: a deployment on an accelerator from the catalogue, its KV pool as `fit` counts it."""

from dataclasses import dataclass
from pathlib import Path

from twophase.calibration.calibrated import Calibration
from twophase.cost.deployment import Deployment
from twophase.errors import InputError
from twophase.fit.fit import fit
from twophase.fit.serving import Serving
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model
from twophase.scheduler.request import Limits
from twophase.server.engine import ALL_CHOSEN, OpenEngine, Sizes
from twophase.server.filler_text import filler_template, filler_tokenizer
from twophase.server.phases import price_on
from twophase.server.standin import StandIn, warm
from twophase.simulate.clock import PacedClock
from twophase.simulate.roofline import calibrated_seconds, roofline_seconds

BLOCK_SIZE = 16
CHAT_TOKENS = 256  # of an answer where nobody says how long
SENTENCE = "A stand-in has no model behind it, so these words mean nothing, but they come when they should."


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInOptions:
    """Sizes that are not said are those that the serving engine which `fit` knows would choose."""

    name: str
    kv: str
    speed: float
    sizes: Sizes = ALL_CHOSEN
    tokenizer: Path | None = None
    calibration: Calibration | None = None  # None: floors


def open_standin(
    model: Model, own: Deployment, accelerator: Accelerator, options: StandInOptions
) -> OpenEngine:
    """InputError where the model doesn't fit."""
    sizes = options.sizes
    serving = Serving(
        plan=own.plan,
        kv=options.kv,
        max_model_len=sizes.context_length,
        max_num_batched_tokens=sizes.max_tokens,
        max_num_seqs=sizes.max_sequences,
        prefix_caching=sizes.prefix_cache,
        block_size=BLOCK_SIZE,
        kv_pool_bytes=sizes.kv_pool_bytes,
    )
    found = fit(model, accelerator, serving)
    length = found.settings.max_model_len
    tokens = found.capacity.paged_tokens
    if found.kv_pool_bytes <= 0 or tokens < BLOCK_SIZE:
        raise InputError(
            f"{model.spec.name} leaves no room for a KV cache on {accelerator.title}: `twophase fit` says "
            "what would; try --tp, --weights, or another --gpu"
        )
    blocks = sizes.blocks or tokens // BLOCK_SIZE
    if options.tokenizer is None:
        tokenizer = filler_tokenizer(model.spec.vocab_size)
        words: range | tuple[int, ...] = range(model.spec.vocab_size)
    else:
        from twophase.engine.tokenizer import load_tokenizer

        tokenizer = load_tokenizer(options.tokenizer)
        words = tuple(dict.fromkeys(tokenizer.encode(SENTENCE, add_bos=False)))
    calibration = options.calibration
    if calibration is None:
        seconds = roofline_seconds(own, accelerator)
        whose = "the roofline's time"
    else:
        settings = found.settings
        seconds = calibrated_seconds(
            own, accelerator, calibration, settings.max_num_batched_tokens, settings.max_num_seqs
        )
        whose = f"the time calibrated on {calibration.passes:,} measured passes"
    warm(seconds)
    return OpenEngine(
        name=options.name,
        executor=StandIn(seconds, words, BLOCK_SIZE, sizes.prefix_cache),
        limits=Limits(
            blocks=blocks,
            context_length=length,
            max_sequences=found.settings.max_num_seqs,
            max_tokens=found.settings.max_num_batched_tokens,
            block_size=BLOCK_SIZE,
            prefix_cache=sizes.prefix_cache,
        ),
        clock=PacedClock(options.speed),
        price=price_on(own, accelerator),
        tokenizer=tokenizer,
        vocabulary=model.spec.vocab_size,
        chat_template=filler_template,
        default_output=CHAT_TOKENS,
        notes=_notes(whose, own, accelerator, calibration),
        kv_bytes=found.kv_pool_bytes * blocks / (tokens // BLOCK_SIZE),
        facts={
            "block_size": str(BLOCK_SIZE),
            "cache_dtype": options.kv,
            "enable_prefix_caching": str(sizes.prefix_cache),
            "num_gpu_blocks": str(blocks),
        },
    )


def _notes(
    whose: str, own: Deployment, accelerator: Accelerator, calibration: Calibration | None
) -> tuple[str, ...]:
    said = f"A stand-in: passes take {whose} on {accelerator.title} ({own.plan}), and the text is filler."
    if calibration is None:
        return (said,)
    measured = (calibration.model, calibration.accelerator)
    if measured == (own.spec.name, accelerator.name):
        return (said,)
    return (said, f"Extrapolated: the calibration was measured with {measured[0]} on {measured[1]}.")
