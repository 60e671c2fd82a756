import numpy as np

from twophase.meter.calibration import Calibration
from twophase.meter.replayed import Replayed
from twophase.workload.workload import Blocks, Workload


def test_equal_blocks_are_equal_text_and_others_are_not() -> None:
    content = Blocks(np.array([0, 1, 2, 0, 1, 9]), np.array([0, 3, 6]), 512)
    trace = Workload(np.array([0.0, 1.0]), np.array([1300, 1100]), np.array([5, 6]), content)
    recipe = Replayed("s", Calibration(), trace)
    one, two = (recipe(number).turns[0] for number in range(2))
    assert (one.prompt_tokens, one.max_tokens) == (1300, 5)
    ours, others = one.text.split(), two.text.split()
    assert (len(ours), len(others)) == (1300, 1100)
    assert ours[:1024] == others[:1024]
    assert ours[1024:1100] != others[1024:1100]


def test_prompts_of_a_trace_without_blocks_are_unique() -> None:
    trace = Workload(np.zeros(3), np.full(3, 210), np.full(3, 5))
    recipe = Replayed("s", Calibration(2.0, 10.0), trace)
    texts = [recipe(number).turns[0].text.split() for number in range(3)]
    assert [len(text) for text in texts] == [100] * 3
    assert len({text[0] for text in texts}) == 3
