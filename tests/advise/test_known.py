"""The list of levers: whoever weighs them knows all of them, and nothing else."""

import pytest
from machine import CHAT, diagnosis

from twophase.advise.changes import CHANGES
from twophase.advise.known import ENGINES, known_levers
from twophase.advise.reasons import REASONS

OF_THE_ISSUE = (
    *("int8-weights", "int4-weights", "fp8", "kv-fp8", "kv-int8", "speculation", "prefix-cache"),
    *("larger-batch", "smaller-batch", "larger-chunk", "smaller-chunk", "prefill-first", "decode-first"),
    *("more-tp", "more-pp", "disaggregation", "more-flops", "more-bandwidth", "shorter-prompt"),
    "shorter-output",
)


def test_each_has_a_change_and_a_reason() -> None:
    assert set(known_levers()) == set(CHANGES) == set(REASONS)
    assert set(OF_THE_ISSUE) <= set(known_levers())


@pytest.mark.parametrize("lever", known_levers())
def test_words_are_filled_in(lever: str) -> None:
    known = known_levers()[lever]
    assert known.lever == lever
    assert set(known.flags) <= set(ENGINES)
    said = known.filled({"drafts": 4, "sequences": 8, "tokens": 16, "tp": 2, "pp": 2, "factor": 2.0})
    for text in (*said.price.values(), *said.flags.values()):
        assert text
        assert "{factor}" not in text
        assert "{{" not in text


def test_a_flag_by_hand() -> None:
    filled = known_levers()["speculation"].filled({"drafts": 5})
    assert filled.flags["ours"] == "--speculate ngram:5"  # what `serve --speculate` reads
    assert '{"method": "ngram", "num_speculative_tokens": 5}' in filled.flags["vllm"]
    assert known_levers()["more-tp"].filled({"tp": 4, "factor": 2.0}).price["money"] == "2 times the devices"


def test_diagnose_weighs_levers_of_the_same_list() -> None:
    for each in diagnosis(CHAT, 2000, 500).verdict.advice:
        known = known_levers()[each.lever]
        assert each.phase == known.phase
        assert each.kind == known.kind or each.lever in ("prefill-kernels", "decode-kernels")
        assert each.flags == known.filled({}).flags
