"""A simulated run as one JSON document: the keys of a measured one, and `simulation`."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from twophase.report.bench_json import document as measured
from twophase.report.clock_json import clock
from twophase.report.simulation import Simulation, record_of
from twophase.report.simulation_activity import Work
from twophase.simulate.books import Floats
from twophase.simulate.cluster_books import ARRIVED_S, SENT_S
from twophase.simulate.pools import Pool
from twophase.workload.reuse import reuse_of

Json = dict[str, Any]


def to_json(own: Simulation) -> str:
    return json.dumps(document(own), indent=2, allow_nan=False, ensure_ascii=False)


def document(own: Simulation) -> Json:
    made = measured(record_of(own), own.summary)
    made["meter_error_s"] = made["meter"] = None
    made["simulation"] = simulation(own)
    return made


def simulation(own: Simulation) -> Json:
    run, activity = own.run, own.activity
    reuse = reuse_of(run.workload)
    transfers = run.transfers
    return {
        "simulated_s": run.ended_s,
        "policy": own.how,
        "clock": clock(run.replicas[0].pool.estimate),
        "pools": [{**pool(each), **work(did)} for each, did in zip(run.pools, activity.pools, strict=True)],
        "devices": run.devices,
        "passes": activity.passes,
        **work(activity.work),
        "phase_shares": activity.phase_shares,
        "preemptions": activity.preemptions,
        "prefix_cache": {
            "queried_tokens": activity.prefix_queried_tokens,
            "hit_tokens": activity.prefix_hit_tokens,
            "definition": "prompt tokens found at a request's first admission / all its prompt tokens",
            "unlimited_share_of_blocks": reuse.share if reuse else None,
        },
        "usd_per_million_output_tokens": activity.usd_per_million_output_tokens,
        "usd_per_million_tokens": activity.usd_per_million_tokens,
        "overload": asdict(run.growth) if run.growth else None,
        "kv_transfer_s": None if transfers is None else mean_transfer(transfers),
    }


def pool(mine: Pool) -> Json:
    return {
        "role": mine.role,
        "replicas": mine.replicas,
        "gpu": mine.accelerator.name,
        **dict(mine.own.plan.sizes),
        "policy": mine.policy,
        "kv_blocks": mine.limits.blocks * mine.own.plan.pp,
        "block_size": mine.limits.block_size,
        "max_tokens_per_pass": mine.limits.budget,
        "max_sequences": mine.max_sequences,
    }


def work(did: Work) -> Json:
    return {
        "busy_share": did.busy_share,
        "mfu": did.mfu,
        "mbu": did.mbu,
        "batch": {"mean": did.batch_mean, "peak": did.batch_peak},
        "waiting": {"mean": did.waiting_mean, "peak": did.waiting_peak},
        "kv_use": {"mean": did.kv_use_mean, "peak": did.kv_use_peak},
    }


def mean_transfer(transfers: Floats) -> float | None:
    took = transfers[:, ARRIVED_S] - transfers[:, SENT_S]
    return float(np.nanmean(took)) if np.any(~np.isnan(took)) else None
