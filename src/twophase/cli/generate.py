"""twophase generate: speak, and say what each phase took."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from twophase.cli.engine import KeptKVOption, KeptWeightsOption, kept_formats
from twophase.cli.needs import needs
from twophase.cli.options import ComputeOption, JsonOption, LoadOption, ThreadsOption, threads_of
from twophase.cli.progress import compiling_shown, progress_bar
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.records import PassRecord


def generate(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The text to continue.")],
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A Hugging Face directory or a GGUF file; else the default."),
    ] = None,
    *,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="Output tokens at the most.")] = 64,
    load: LoadOption = None,
    compute: ComputeOption = "bf16",
    weights: KeptWeightsOption = None,
    kv: KeptKVOption = "bf16",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue a prompt greedily, streaming its text, then print both phases' timings.

    Without MODEL: the embedded default, Gemma 3 270M, a base model.
    """
    cores = threads_of(threads)
    if max_tokens < 1:
        raise InputError(f"--max-tokens {max_tokens}: must be at least 1")
    with needs("engine"):
        from twophase.engine.default_model import HOW_TO_GET_IT
        from twophase.engine.generating import generate as run
        from twophase.engine.open import find_model, load_model, require_window
        from twophase.engine.sampling import Sampling
        from twophase.engine.tokenizer import load_tokenizer

    kept_weights, kept_kv = kept_formats(weights, kv, compute)
    with progress_bar() as report, compiling_shown(report):
        found = find_model(model, load, compute, kept_weights)
        if found.path is None:
            hint = "give its directory or a .gguf file" if model else HOW_TO_GET_IT
            raise InputError(f"{found.spec.name} has no tokenizer here: {hint}")
        tokenizer = load_tokenizer(found.path)
        prompt_ids = tokenizer.encode(prompt)
        require_window(found.spec, len(prompt_ids), max_tokens)
        opened = load_model(found, lambda share: report("loading weights", share))
        steps = run(opened, [prompt_ids], max_tokens, cores, Sampling(stop_ids=tokenizer.eos_ids), kept_kv)
        report("preparing kernels and running the prompt", 1.0)
        first = next(steps)

    passes: list[PassRecord] = []
    output_ids: list[int] = []

    def spoken() -> Iterator[int]:
        for step in (first, *steps):
            passes.append(step.record)
            output_ids.extend(step.tokens[0])
            yield from (token for token in step.tokens[0] if token not in tokenizer.eos_ids)

    pieces = []
    for piece in tokenizer.stream(spoken(), after=prompt_ids):
        pieces.append(piece)
        if not as_json:
            print(piece, end="", flush=True)
    if as_json:
        print(_document(prompt_ids, output_ids, "".join(pieces), passes))
    else:
        print(f"\n\n{_summary(prompt_ids, passes)}")
        for note in opened.notes:
            print(note)


def _document(
    prompt_ids: Sequence[int], output_ids: Sequence[int], text: str, passes: Sequence["PassRecord"]
) -> str:
    prefill_s, decode_s = _phases(passes)
    shown = [
        {"shape": each.shape, "flops": each.flops, "bytes": each.bytes, "seconds": each.seconds}
        for each in passes
    ]
    return json.dumps(
        {
            "prompt_ids": prompt_ids,
            "output_ids": output_ids,
            "text": text,
            "prefill_s": prefill_s,
            "decode_s": decode_s,
            "passes": shown,
        },
        ensure_ascii=False,
    )


def _summary(prompt_ids: Sequence[int], passes: Sequence["PassRecord"]) -> str:
    prefill_s, decode_s = _phases(passes)
    lines = [_phase("prefill", len(prompt_ids), prefill_s)]
    if decoded := len(passes) - 1:
        lines.append(f"{_phase('decode', decoded, decode_s)}  {1e3 * decode_s / decoded:.1f} ms a token")
    return "\n".join(lines)


def _phase(name: str, tokens: int, seconds: float) -> str:
    return f"{name:7}  {tokens:5d} tokens  {1e3 * seconds:8.1f} ms  {tokens / seconds:7.1f} tokens/s"


def _phases(passes: Sequence["PassRecord"]) -> tuple[float, float]:
    """Seconds of prefill and of decode: the prompt is one pass, each further token another."""
    return passes[0].seconds, sum(each.seconds for each in passes[1:])
