"""The simulation that options of `simulate` describe, with its progress."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twophase.cli.deployment import loaded
from twophase.cli.fit import bytes_of
from twophase.cli.progress import progress_bar, simulator_shown
from twophase.cli.serving_options import calibration_of
from twophase.cli.simulate_options import group_of, number_of
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.cost.parallel import Plan
    from twophase.model.spec import ModelSpec
    from twophase.simulate.outcome import Run
    from twophase.workload.workload import Workload


def simulated(
    values: dict[str, Any], workload: "Workload", split: tuple[int, int] | None
) -> "tuple[Run, bool]":
    """And whether loops were compiled for it."""
    from twophase.cost.parallel import Plan
    from twophase.hardware.catalogue import load_accelerator
    from twophase.simulate.links import link_of
    from twophase.simulate.pools import Sizes
    from twophase.simulate.run import Split, link_between, simulate
    from twophase.simulate.running import Wire

    model = loaded(values["model"], values["weights"])
    groups = [group_of(each, values["hardware"]) for each in values["pool"]]
    for said, group in zip(values["pool"], groups, strict=True):
        require_dealt(model.spec, group.plan, {"--": ""}, f"--pool {said}: ")
    apart = bool(groups) and groups[0].role != "both"
    accelerator = groups[0].accelerator if groups else load_accelerator(values["gpu"], values["hardware"])
    wire = None if values["link"] is None else link_of(values["link"], accelerator)
    plan = Plan(values["tp"], values["pp"], values["ep"], values["dp"])
    parted = None
    if split is not None:
        prefill_tp = values["prefill_tp"]
        prefill_plan = None if prefill_tp is None else Plan(prefill_tp, plan.pp, plan.ep, plan.dp)
        if prefill_plan is not None:
            require_dealt(model.spec, plan, {})
            require_dealt(model.spec, prefill_plan, {"--tp": "--prefill-tp"})
        parted = Split(
            prefill=split[0],
            decode=split[1],
            link=wire,
            overlap=not values["no_overlap"],
            prefill_plan=prefill_plan,
        )
    with progress_bar() as report, simulator_shown(report) as compiled:
        started = time.perf_counter()

        def say(simulated_s: float, done: int, of: int) -> None:
            rate = done / max(time.perf_counter() - started, 1e-9)
            report(f"{simulated_s:,.0f} s simulated, {rate:,.0f} requests/s", done / max(of, 1))

        run = simulate(
            model,
            groups or accelerator,
            workload,
            values["preset"] if values["policy"] is None else values["policy"],
            clients=values["concurrency"],
            preset=values["preset"],
            plan=plan,
            kv=values["kv"],
            sizes=Sizes(
                max_tokens=values["max_tokens_per_pass"],
                max_sequences=values["max_sequences"],
                context_length=values["context_length"],
                block_size=values["block_size"],
                blocks=values["kv_blocks"],
                kv_pool_bytes=bytes_of("--kv-memory", values["kv_memory"]),
                prefix_cache=values["prefix_cache"],
            ),
            replicas=values["replicas"],
            router=values["router"],
            split=parted,
            wire=Wire(wire or link_between(groups), not values["no_overlap"]) if apart else None,
            drafts=values["speculate"],
            acceptance=values["acceptance"] if values["speculate"] else 0.0,
            provenance=values["clock"],
            calibration=calibration_of(values["calibration"]),
            seed=number_of(values["seed"]),
            max_time_s=values["max_time"] or float("inf"),
            show=say,
        )
    return run, bool(compiled)


def require_dealt(spec: "ModelSpec", plan: "Plan", names: Mapping[str, str], before: str = "") -> None:
    """InputError as `require_divisible` says it, by the names of the options that made the plan."""
    from twophase.cost.parallel import require_divisible

    try:
        require_divisible(spec, plan)
    except InputError as error:
        said = str(error)
        for name, here in names.items():
            said = said.replace(name, here)
        raise InputError(f"{before}{said}") from None
