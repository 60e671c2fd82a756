"""Rows of a batch, one by one."""

from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.pass_ import Pass, Span
from twophase.engine.batch import make_batch


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    spans, free = [], iter(draw(st.permutations(range(40))))
    for sequence in draw(st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True)):
        new, context = draw(st.integers(1, 40)), draw(st.integers(0, 80))
        blocks = tuple(next(free) for _ in range((context + new + 15) // 16))
        spans.append(Span(sequence, new, context, blocks, draw(st.integers(0, min(new, 4)))))
    return Pass(tuple(spans))


@given(passes())
def test_every_row_has_its_token_place_and_slot(pass_: Pass) -> None:
    tokens = {span.sequence: [1000 * span.sequence + i for i in range(130)] for span in pass_.spans}
    batch = make_batch(pass_, tokens)
    rows = [(span, span.context + i) for span in pass_.spans for i in range(span.new)]
    assert batch.ids.tolist() == [tokens[span.sequence][position] for span, position in rows]
    assert batch.positions.tolist() == [position for _, position in rows]
    assert batch.slots.tolist() == [
        span.blocks[position // 16] * 16 + position % 16 for span, position in rows
    ]
    wanted = [
        row
        for row, (span, position) in enumerate(rows)
        if position >= span.context + span.new - span.logit_rows
    ]
    assert batch.logit_rows.tolist() == wanted


@given(passes(), st.sampled_from([(1, 1), (16, 8), (32, 2)]))
def test_items_cover_every_row_once(pass_: Pass, heads: tuple[int, int]) -> None:
    batch = make_batch(pass_, {span.sequence: range(130) for span in pass_.spans})
    covered = {}
    for span, row, count, position in batch.items(*heads).tolist():
        assert count * heads[0] // heads[1] <= 128
        for i in range(count):
            assert row + i not in covered
            covered[row + i] = (span, position + i)
    owners = [number for number, span in enumerate(pass_.spans) for _ in range(span.new)]
    assert [covered[row] for row in range(pass_.rows)] == list(
        zip(owners, batch.positions.tolist(), strict=True)
    )
