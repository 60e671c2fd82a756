"""The picture that TensorRT-LLM's iterations give: exact seconds of each phase, for as long as they reach."""

from collections.abc import Sequence

from twophase.counters.derive import ratio
from twophase.counters.iterations import Iteration, split
from twophase.counters.picture import Picture
from twophase.counters.share import Range, Share, share_of


def iterations_picture(own: Sequence[Iteration], seconds: float | None) -> tuple[Picture, Share | None]:
    """Counts are of these iterations; seconds: the window, where it is known."""
    parts = split(own)
    prompt = float(sum(each.prompt_tokens for each in own))
    rows = float(sum(each.decodes for each in own))
    generated = sum(each.decodes * each.tokens_per_decode for each in own)
    steps = sum(bool(each.decodes) for each in own)
    missed = own[-1].number - own[0].number + 1 - len(own)
    busy = parts.prefill_s + parts.decode_s
    alone = any(each.decodes and not each.prompt_tokens for each in own)
    told = busy > 0 and (alone or not parts.mixed_s)  # else nothing says what decodes took of mixed ones
    usage = [each.kv_usage for each in own if each.kv_usage is not None]
    notes = [f"{len(own)} iterations of TensorRT-LLM; prompt tokens are those computed, not as received"]
    if missed > 0:
        notes.append(
            f"{missed} iterations between them were polled away or overwritten: shares are of the rest"
        )
    found = Picture(
        engine="trtllm",
        title="TensorRT-LLM",
        model="",
        window_s=seconds,
        covered_s=seconds if not missed else None,
        computed_prompt_tokens=prompt,
        generation_tokens=generated,
        prefill_decode_token_ratio_computed=ratio(prompt, generated),
        mean_decode_batch=ratio(rows, steps),
        decode_steps=float(steps),
        running=sum(each.running for each in own) / len(own),
        waiting=sum(each.waiting for each in own) / len(own),
        kv_usage=sum(usage) / len(usage) if usage else None,
        tokens_per_step=ratio(generated, rows) if generated > rows else None,
        prefill_gpu_s=parts.prefill_s if told else None,
        decode_gpu_s=parts.decode_s if told else None,
        gpu_busy=ratio(busy, seconds) if not missed else None,
        prefill_share_of_busy=ratio(parts.prefill_s, busy) if told else None,
        notes=tuple(notes),
    )
    if not told:
        return found, None
    # A mixed iteration is neither's alone: all of it one's, or all of it the other's, are the ends.
    mixed, shared = parts.mixed_s, parts.mixed_s > 0
    prefill_only = sum(each.seconds for each in own if each.prompt_tokens and not each.decodes)
    decode_only = busy - mixed - prefill_only
    why = ["latencies of iterations, each of one phase or both"]
    if shared:
        why.append(
            f"{mixed:.3g} s are of iterations with both: decode has what iterations that only decode take"
        )
    prefill = Range(prefill_only, parts.prefill_s, prefill_only + mixed)
    decode = Range(decode_only, parts.decode_s, decode_only + mixed)
    return found, share_of("engine", prefill, decode, tuple(why))
