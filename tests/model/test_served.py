"""The formats in which a published model is served, and what its name promises of them."""

from dataclasses import replace

import pytest

from twophase.model.catalogue import Model, load_model
from twophase.model.quantization import uniform
from twophase.model.served import served, unsaid_format

LLAMA = load_model("llama-3-8b")


def called(name: str, storage: str = "bf16") -> Model:
    return Model(replace(LLAMA.spec, name=name), uniform(storage))


def test_a_checkpoint_in_32_bits_is_served_in_16_unless_asked_for() -> None:
    wide = called("gpt2", "float32")
    assert [served(wide, each).storage.name for each in (None, "float32", "int4")] == [
        "bf16",
        "float32",
        "int4",
    ]
    assert served(called("x", "fp8"), None).storage.name == "fp8"


@pytest.mark.parametrize(
    ("name", "promised"),
    [
        ("nvidia--GLM-5-NVFP4", "nvfp4"),
        ("Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("Qwen2.5-7B-Instruct-AWQ", "awq"),
        ("model.w4a16", "int4"),
        ("Llama-3-8B", None),
        ("fp8tales-7b", None),  # a word, not a format
    ],
)
def test_a_name_may_promise_a_format(name: str, promised: str | None) -> None:
    assert unsaid_format(called(name)) == promised
    assert unsaid_format(called(name, "mxfp4")) is None
