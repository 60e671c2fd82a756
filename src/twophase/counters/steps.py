"""How many decode passes a window had, of how many sequences: what curves and floors are asked of."""

from dataclasses import dataclass

from twophase.counters.picture import Picture
from twophase.counters.share import Range


@dataclass(frozen=True, slots=True)
class Steps:
    batch: Range  # sequences of a decode pass
    row_steps: float  # sequences summed over the passes: tokens after the first, over those of a step
    context: float  # tokens of a sequence's cache, on average over its decode
    prefills: float  # prompts
    computed: float  # tokens of a prompt that were computed
    cached: float  # and that were found in the cache


def steps_of(own: Picture) -> Steps | str:
    """Or why the counters don't tell."""
    first, generated, computed = own.first_tokens, own.generation_tokens, own.computed_prompt_tokens
    if computed is None:
        computed = own.prompt_tokens
    if generated is None or computed is None or not first:
        return f"{own.title} tells too little: tokens of both phases and requests are needed"
    known = [own.mean_decode_batch, own.running, own.mean_running_decode]
    batches = [max(each, 1.0) for each in known if each]
    if not batches:
        return f"{own.title} does not tell how many sequences decode together"
    low = [max(own.mean_running_decode, 1.0)] if own.mean_running_decode else []
    # The mean over the window counts idle time as none: a pass can't have fewer. `running` is two samples.
    at_least = low[0] if low else min(batches)
    usual = batches[0] if batches[0] >= 0.9 * at_least else at_least
    prompt = (own.prompt_tokens or computed) / first
    output = own.output_tokens_mean or generated / first
    return Steps(
        batch=Range(min(at_least, usual), usual, max(batches)),
        row_steps=max(generated - first, 0.0) / (own.tokens_per_step or 1.0),
        context=own.context_tokens_mean or prompt + output / 2,
        prefills=first,
        computed=computed / first,
        cached=max(prompt - computed / first, 0.0),
    )
