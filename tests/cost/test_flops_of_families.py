"""FLOPs of a prefill and a decode step against PyTorch's counter, on transformers' model of each family.

Both count a multiply-add as two, the head on one row, and of routed experts those that a row is sent to.
Where the conventions differ, theirs is put in place of ours, after ours is counted key by key:

- eager attention multiplies the whole rectangle of rows and keys, of which a causal row sees a part;
- latent attention is decompressed, and the whole cache is widened anew in each step;
- a recurrence has chunked forms of its own there: its projections are compared, its update is by hand in
  test_attention_forms.py, and a convolution runs over kernel - 1 rows of padding more;
- what one family does besides is named in BESIDE.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from counted_singly import flops as flops_singly
from family_models import WRAPPED, small_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, PreTrainedModel

from twophase.cost.deployment import Deployment, cached_layers
from twophase.cost.operators import Touched, operators
from twophase.cost.spans import Spans, decodes, prefills
from twophase.model.cache import state_elements
from twophase.model.families import READERS
from twophase.model.mixers import Attending, Attention, CompressedAttention, LatentAttention, Mamba
from twophase.model.spec import Layer, ModelSpec, MoE

ROWS = 24  # of the prefill; the decode step has as many tokens before it
FAMILIES = sorted(family for family in READERS if family in CONFIG_MAPPING)
NOT_IN_TRANSFORMERS = {  # remote code, or names of files that are another family's architecture
    *("baichuan", "internlm", "internlm2", "qwen", "mimo", "nemotron-nas", "minimax_text_01", "minimax_m1"),
    *("minimax_m3", "kimi_k2", "deepseek_ref"),
}
ATTENDS = Attention | LatentAttention | CompressedAttention
# Who computes every row of the last layers, though they cache nothing; Gemma 4 drops all but the last row.
ALL_ROWS = ("gemma3n_text",)


def rectangle(own: Attending, new: int, context: int, windowed: bool) -> int:
    """What eager attention multiplies: each row with each key that its cache gives out."""
    everything = new + context
    if isinstance(own, Attention):
        limit = (own.window or own.chunk) if windowed else None
        keys = new + (context if limit is None else min(context, limit - 1))
        flops = 2 * own.heads * (own.head_dim + own.value_dim) * new * keys
        scored = 2 * new * everything * own.indexer.heads * own.indexer.dim if own.indexer else 0
        return flops + scored
    if isinstance(own, LatentAttention):
        flops = 2 * own.heads * (own.nope_dim + own.rope_dim + own.v_dim) * new * everything
        flops += 2 * own.kv_rank * own.heads * (own.nope_dim + own.v_dim) * context
        # a score is summed over the heads with a matmul too
        scored = 2 * new * everything * own.indexer.heads * (own.indexer.dim + 1) if own.indexer else 0
        return flops + scored
    packed = everything // own.ratio if own.ratio else 0
    keys = new + min(context, own.window - 1) + packed
    scored = 2 * new * packed * own.indexer.heads * own.indexer.dim if own.indexer else 0
    return 4 * own.heads * own.head_dim * new * keys + scored


def every_expert(model: PreTrainedModel, spec: ModelSpec, new: int) -> int:
    """Llama 4 multiplies each row with all experts, and nulls those that it isn't sent to."""
    idle = 0
    for layer in spec.layers:
        own = layer.feed_forward
        if isinstance(own, MoE):
            idle += (own.experts - own.top_k) * 3 * own.expert.d_ff * spec.d_model
    return 2 * idle * new


def projected_out(model: PreTrainedModel, spec: ModelSpec, new: int) -> int:
    """OPT narrows every row for the head, not only those whose logits are wanted."""
    return 2 * (spec.embedding_dim or 0) * spec.d_model * (new - 1)


def mixed_streams(model: PreTrainedModel, spec: ModelSpec, new: int) -> int:
    """DeepSeek V4 mixes its residual streams twice a layer, [streams, streams] on [streams, d_model]."""
    streams: int = model.config.hc_mult
    return 2 * len(spec.layers) * 2 * streams * streams * spec.d_model * new


def predicted_streams(model: PreTrainedModel, spec: ModelSpec, new: int) -> int:
    """Gemma 3n does so once a layer, and runs the router of its streams before and after each layer."""
    streams: int = model.config.altup_num_inputs
    return len(spec.layers) * 2 * (streams * streams + streams) * spec.d_model * new


def unseen_steps(model: PreTrainedModel, spec: ModelSpec, new: int) -> int:
    """Jamba multiplies by dt_proj's weight outside its module: what is taken off with the recurrence."""
    mambas = [mixer for layer in spec.layers for mixer in layer.mixers if isinstance(mixer, Mamba)]
    return -sum(2 * own.inner * own.dt_rank * new for own in mambas)


BESIDE: dict[str, Callable[[PreTrainedModel, ModelSpec, int], int]] = {
    "llama4_text": every_expert,
    "opt": projected_out,
    "jamba": unseen_steps,
    "deepseek_v4": mixed_streams,
    "gemma3n_text": predicted_streams,
}


class Counted:
    """A prefill of ROWS rows, and the decode step after it."""

    def __init__(self, family: str) -> None:
        self.model, self.spec = small_model(family)
        with torch.no_grad():
            cache, self.prefill = self._pass(ROWS, None)
            _, self.decode = self._pass(1, cache)

    def _pass(self, rows: int, cache: Any) -> tuple[Any, FlopCounterMode]:
        ids = torch.arange(3, 3 + rows)[None]
        with FlopCounterMode(display=False) as counter:
            made = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return made.past_key_values, counter

    def recurrence(self, counter: FlopCounterMode) -> tuple[int, int]:
        """(what a recurrent mixer multiplies outside its projections, its convolutions)."""
        modules = dict(self.model.named_modules())
        counts = counter.get_flop_counts()
        by_name = {path.partition(".")[2]: sum(ops.values()) for path, ops in counts.items()}
        convolved = {
            path.partition(".")[2]: sum(flops for op, flops in ops.items() if "convolution" in str(op))
            for path, ops in counts.items()
        }
        matmuls = convolutions = 0
        for name, module in modules.items():
            if is_recurrent(module) and name in by_name:
                linear = [
                    each for each, own in module.named_modules() if isinstance(own, torch.nn.Linear) and each
                ]
                projected = sum(by_name.get(f"{name}.{each}", 0) for each in linear)
                convolutions += convolved[name]
                matmuls += by_name[name] - projected - convolved[name]
        return matmuls, convolutions


def is_recurrent(module: torch.nn.Module) -> bool:
    convolves = any(isinstance(child, torch.nn.Conv1d) for child in module.children())
    return convolves or type(module).__name__.endswith("LightningAttention")


def layers_with_rows(spec: ModelSpec, new: int, touched: Touched) -> list[tuple[Layer, int]]:
    """Layers that keep nothing are computed for the last row alone."""
    whole = len(spec.layers) if touched == "expected" else cached_layers(spec)
    return [(layer, new if i < whole else 1) for i, layer in enumerate(spec.layers)]


def in_their_convention(counted: Counted, family: str, spans: Spans, new: int, context: int) -> float:
    spec = counted.spec
    touched: Touched = "expected" if family in ALL_ROWS else "least"
    ours = {each.name: float(each.total_flops) for each in operators(Deployment(spec), spans, touched)}
    attending = [
        (mixer, rows)
        for layer, rows in layers_with_rows(spec, new, touched)
        for mixer in layer.mixers
        if isinstance(mixer, ATTENDS)
    ]
    singly = [flops_singly(mixer, rows, context + new - rows) for mixer, rows in attending]
    assert ours.pop("attention", 0) == sum(singly)
    ours.pop("recurrence", 0)
    # GPT-Neo keeps every token in every layer, and so does a pass for the layers that borrow its keys
    whole = sum(
        rectangle(mixer, rows, context + new - rows, windowed=family != "gpt_neo" and rows == new)
        for mixer, rows in attending
    )
    more = BESIDE[family](counted.model, spec, new) if family in BESIDE else 0
    return sum(ours.values()) + whole + more


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_flops_are_pytorchs(family: str) -> None:
    counted = Counted(family)
    for counter, spans, new, context in (
        (counted.prefill, prefills(ROWS), ROWS, 0),
        (counted.decode, decodes(1, ROWS), 1, ROWS),
    ):
        theirs = counter.get_total_flops() - sum(counted.recurrence(counter))
        ours = in_their_convention(counted, family, spans, new, context)
        assert ours == pytest.approx(theirs, rel=1e-6), (new, context)


def test_every_family_is_compared() -> None:
    assert set(READERS) - set(FAMILIES) == NOT_IN_TRANSFORMERS
    assert set(WRAPPED) <= set(FAMILIES)
    assert len(FAMILIES) >= 100


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("family", ["jamba", "bamba", "kimi_linear", "qwen3_next"])
def test_convolutions_are_pytorchs_without_their_padding(family: str) -> None:
    """Ours are a recurrence's FLOPs but for its state's: 2·width·taps a row."""
    counted = Counted(family)
    found = [
        state_elements(mixer)
        for layer in counted.spec.layers
        for mixer in layer.mixers
        if not isinstance(mixer, ATTENDS)
    ]
    _, theirs = counted.recurrence(counted.prefill)
    assert sum(2 * width * taps * (ROWS + taps - 1) for _, width, taps in found) == theirs
    state = {"jamba": 4, "bamba": 4, "kimi_linear": 6, "qwen3_next": 6}[family] * sum(
        each[0] for each in found
    )
    ours = {each.name: each for each in operators(Deployment(counted.spec), prefills(ROWS))}["recurrence"]
    convolved = sum(2 * width * taps for _, width, taps in found)
    assert float(ours.total_flops) == ROWS * (state + convolved)
