"""The same work on a Ray cluster: a local one, where Ray is installed."""

import pytest
from plan_questions import SMALL, nothing, question

from twophase.errors import InputError
from twophase.plan.ledger import Ledger
from twophase.plan.search import cheapest, look
from twophase.plan.space import Space
from twophase.plan.workers import local, on_ray


def one_gpu() -> Space:
    return Space(
        gpus=("h100-sxm",),
        tp=(1,),
        pp=(1,),
        max_tokens=SMALL.max_tokens,
        max_sequences=SMALL.max_sequences,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_local_ray_gives_the_same() -> None:
    pytest.importorskip("ray")
    own = question(space=one_gpu())
    found = []
    for working in (on_ray(own, "local"), local(own, 1)):
        with working as work:
            looked = look(own, work, nothing)
            found.append((looked, cheapest(own, looked, Ledger(work), nothing)))
    assert found[0] == found[1]
    assert found[0][1] is not None


def test_no_ray() -> None:
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(InputError, match=r"twophase\[ray\]"), on_ray(question(), "auto"):
            pass
