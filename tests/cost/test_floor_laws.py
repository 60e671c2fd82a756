"""What holds for the floor of any pass on any machine."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.deployment import Deployment, as_bits
from twophase.cost.operators import operators
from twophase.cost.pass_ import Pass, Span
from twophase.cost.price import price_of, spans_of
from twophase.cost.roofline import floor
from twophase.hardware.accelerator import Accelerator
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec

SPANS = st.lists(
    st.builds(Span, st.just(0), st.integers(1, 3000), st.integers(0, 3000), logit_rows=st.integers(0, 1)),
    min_size=1,
    max_size=4,
)
RATES = st.floats(1e9, 1e16)
FORMATS = st.sampled_from([0.5, 0.5625, 1.0, 2.0, 4.0])


@st.composite
def specs(draw: st.DrawFn) -> ModelSpec:
    def layer() -> Layer:
        kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        window = draw(st.none() | st.integers(1, 4000))
        return Layer(
            (Attention(kv_heads * group, kv_heads, 8, 1.0, Rope(1e4), window=window),), MLP(48, "silu")
        )

    layers = tuple(layer() for _ in range(draw(st.integers(1, 4))))
    return ModelSpec("any", "llama", 99, 24, layers, 8192, draw(st.booleans()), 1e-6)


@given(specs(), SPANS, RATES, RATES, FORMATS, FORMATS)
def test_the_floor_is_the_slower_side_of_the_operators_sum(
    spec: ModelSpec, spans: list[Span], peak: float, bandwidth: float, weights: float, kv: float
) -> None:
    pass_ = Pass(tuple(spans))
    own = Deployment(spec, as_bits(weights), kv, arithmetic="bf16")
    every = operators(own, spans_of(pass_))
    flops = sum(each.total_flops for each in every)
    moved = sum(each.read_bytes for each in every) + sum(each.written_bytes for each in every)
    machine = Accelerator("any", "any", "any", {"bf16": peak}, 1e9, 1e9, bandwidth)
    least = floor(own, spans_of(pass_), machine)
    assert abs(least.bytes - moved) <= 1e-12 * moved  # summed in another order
    assert abs(least.flops - flops) <= 1e-12 * flops
    assert (least.compute_s, least.memory_s) == (least.flops / peak, least.bytes / bandwidth)
    assert least.seconds == (least.compute_s if least.bound == "compute" else least.memory_s)
    assert least.seconds >= least.compute_s and least.seconds >= least.memory_s


@given(specs(), SPANS, st.integers(0, 3), st.sampled_from(["new", "context"]), st.integers(1, 2000))
def test_more_rows_or_more_context_never_cost_less(
    spec: ModelSpec, spans: list[Span], which: int, field: str, more: int
) -> None:
    at = which % len(spans)
    grown = [*spans]
    grown[at] = replace(spans[at], **{field: getattr(spans[at], field) + more})
    before, after = map(price_of(Deployment(spec)), (Pass(tuple(spans)), Pass(tuple(grown))))
    assert after[0] >= before[0] and after[1] >= before[1]
    if field == "new":
        assert after[0] > before[0] and after[1] > before[1]


@given(specs(), SPANS, SPANS)
def test_a_pass_of_two_reads_the_weights_once_where_two_passes_read_them_twice(
    spec: ModelSpec, some: list[Span], others: list[Span]
) -> None:
    price = price_of(Deployment(spec))
    apart = [price(Pass(tuple(each))) for each in (some, others)]
    together = price(Pass((*some, *others)))
    heads = min(any(span.logit_rows for span in each) for each in (some, others))
    blocks = sum(
        24 * 8 * 2 * (each.attention.heads + each.attention.kv_heads) + 3 * 24 * 48 for each in spec.layers
    )
    assert together[0] == apart[0][0] + apart[1][0]
    assert apart[0][1] + apart[1][1] - together[1] == 2 * (blocks + heads * 99 * 24)
