"""Values that no config should hold, and the promise that each is taken or refused in one line."""

from typing import Any

from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.model.counts import parameters
from twophase.model.hf_config import spec_from_config

ODD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**31) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


def taken_or_refused(config: dict[str, Any], key: str, value: object) -> None:
    try:
        spec = spec_from_config({**config, key: value}, "odd", "config.json")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert parameters(spec).total > 0
