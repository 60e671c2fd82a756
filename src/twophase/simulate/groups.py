"""Replicas of different kinds that serve one workload together."""

from collections.abc import Sequence
from dataclasses import dataclass

from twophase.cost.parallel import ALONE, Plan
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.simulate.workload_arrays import Role

MOST_ENGINES = 1024  # 4 to 9 MB each


@dataclass(frozen=True, slots=True)
class Group:
    """`count` like replicas; each is laid out over the devices of its plan."""

    accelerator: Accelerator
    count: int = 1
    plan: Plan = ALONE
    role: Role = "both"


def require_few(groups: Sequence[Group]) -> None:
    """InputError where so many schedulers at work would take more memory than machines have."""
    engines = sum(each.count * each.plan.dp * each.plan.pp for each in groups)
    if engines > MOST_ENGINES:
        raise InputError(
            f"{engines:,} replicas, each of --dp and --pp counted: {MOST_ENGINES:,} can be simulated at once"
        )


def require_roles(groups: Sequence[Group]) -> None:
    """InputError unless all do both, or some compute prompts and all others outputs."""
    roles = {each.role for each in groups}
    if not groups:
        raise InputError("give at least one group of replicas")
    if roles not in ({"both"}, {"prefill", "decode"}):
        raise InputError(
            "pools: either none has a role, or each has, some role=prefill and some role=decode; "
            f"there {'is' if len(roles) == 1 else 'are'} {', '.join(sorted(roles))}"
        )
