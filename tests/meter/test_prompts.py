from random import Random

import pytest

from twophase.meter.calibration import Calibration, calibrate, notes_of, refined
from twophase.meter.prompts import Listed, Synthetic, Talk, Turn
from twophase.meter.words import WORDS, random_words, unique_text
from twophase.workload.lengths import Lengths


def synthetic(**more: object) -> Synthetic:
    fields = {
        "seed": "s",
        "calibration": Calibration(),
        "prompt": Lengths("fixed", 64),
        "output": Lengths("fixed", 8),
    }
    return Synthetic(**{**fields, **more})  # type: ignore[arg-type]


def test_prompts_differ_from_the_first_word_on() -> None:
    recipe = synthetic()
    texts = [recipe(number).turns[0].text for number in range(len(WORDS))]
    assert len({text.split()[0] for text in texts}) == len(WORDS)
    begins = {tuple(recipe(number).turns[0].text.split()[:6]) for number in range(5000)}
    assert len(begins) == 5000


def test_another_seed_gives_other_prompts_and_the_same_one_the_same() -> None:
    assert synthetic()(7) == synthetic()(7)
    begins = {" ".join(synthetic(seed=str(seed))(0).turns[0].text.split()[:6]) for seed in range(200)}
    assert len(begins) == 200


def test_texts_have_as_many_words_as_the_calibration_says() -> None:
    recipe = synthetic(calibration=Calibration(2.0, 11.0, "usage"), prompt=Lengths("fixed", 211))
    (turn,) = recipe(0).turns
    assert len(turn.text.split()) == 100
    assert (turn.prompt_tokens, turn.max_tokens) == (211, 8)
    assert len(synthetic(prompt=Lengths("fixed", 100_000))(0).turns[0].text.split()) == 100_000
    assert len(synthetic(prompt=Lengths("fixed", 1))(0).turns[0].text.split()) == 1


def test_prefixes_are_shared_in_turn_and_own_words_are_not() -> None:
    recipe = synthetic(prefix_tokens=40, prefixes=3)
    talks = [recipe(number) for number in range(9)]
    assert {talk.before[0][0] for talk in talks} == {"system"}
    prefixes = [talk.before[0][1] for talk in talks]
    assert prefixes[:3] * 3 == prefixes
    assert len(set(prefixes)) == 3
    assert {len(prefix.split()) for prefix in prefixes} == {40}
    assert len({talk.turns[0].text.split()[0] for talk in talks}) == 9
    assert talks[0].turns[0].prompt_tokens == 104


def test_later_turns_count_what_went_before() -> None:
    turns = synthetic(turns=3)(0).turns
    assert [turn.prompt_tokens for turn in turns] == [64, 64 + 8 + 64, 2 * (64 + 8) + 64]
    assert len({turn.text.split()[0] for turn in turns}) == 3


def test_a_list_begins_again() -> None:
    talks = tuple(Talk((Turn(str(number), 1, 1),)) for number in range(3))
    assert [Listed(talks)(number).turns[0].text for number in range(5)] == ["0", "1", "2", "0", "1"]


@pytest.mark.parametrize("count", [1, 5, 6, 7, 500])
def test_unique_text_has_the_words_that_were_asked_for(count: int) -> None:
    rng = Random(1)
    assert len(unique_text(rng, random_words(rng, 50), 3, count).split()) == count


def test_words_are_told_apart() -> None:
    assert len(set(WORDS)) == len(WORDS) > 256
    assert all(word.isalpha() and word.islower() for word in WORDS)


def test_two_probes_give_the_line_through_them() -> None:
    # a server whose words cost 1.5 tokens behind a template of 11
    known = calibrate((16, 272), (35, 419))
    assert known == Calibration(1.5, 11.0, "usage")
    assert known.words(311) == 200
    assert known.tokens(200) == 311


def test_more_prompts_refine_what_a_word_costs() -> None:
    known = Calibration(1.5, 11.0, "usage")
    assert refined(known, 1000, 1622, 2) == Calibration(1.6, 11.0, "usage")
    assert refined(known, 1000, 9000, 2) == known  # something else was counted
    assert refined(known, 0, 0, 0) == known
    assert refined(Calibration(), 1000, 1600, 0) == Calibration()


@pytest.mark.parametrize("tokens", [(None, 300), (30, None), (0, 0), (30, 30), (5, 100_000)])
def test_what_is_no_count_of_tokens_is_not_believed(tokens: tuple[int | None, int | None]) -> None:
    known = calibrate((16, 272), tokens)
    assert known == Calibration()
    assert "words" in notes_of(known)[0]
