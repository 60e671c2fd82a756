import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from twophase.engine.bf16 import from_bf16, to_bf16


@given(arrays(np.uint32, 64, elements=st.integers(0, 2**32 - 1)))
def test_rounds_as_torch_does_any_bits_of_float32(bits: np.ndarray) -> None:
    values = bits.view(np.float32)
    theirs = torch.from_numpy(values.copy()).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(from_bf16(to_bf16(values)), theirs)  # NaN where theirs is


def test_ties_go_to_even_and_nan_is_no_infinity() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0xFFFFFFFF], np.uint32)
    assert to_bf16(bits.view(np.float32)).tolist()[:4] == [0x3F80, 0x3F82, 0x3F81, 0x7F80]
    assert np.isnan(from_bf16(to_bf16(bits.view(np.float32))[4:])).all()
