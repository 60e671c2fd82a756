"""A workload as the rows that a replica reads."""

from typing import Literal

import numpy as np

from twophase.simulate.books import Requests
from twophase.simulate.setting_up import requests_of
from twophase.workload.block_keys import block_keys
from twophase.workload.workload import Workload

Role = Literal["both", "prefill", "decode"]


def rows_of(
    workload: Workload,
    block_size: int,
    role: Role = "both",
    *,
    prefix_cache: bool = True,
    drafts: int = 0,
    acceptance: float = 0.0,
) -> Requests:
    """Prefill replicas make one token of each request and hold its blocks until they are sent; decode
    replicas get all of a prompt's KV but its last token's. When one comes that follows another is not known.
    """
    workload.require_sound()
    keys = block_keys(workload, block_size) if prefix_cache and role != "decode" else None
    prompts = workload.prompt_tokens
    made = requests_of(
        np.zeros(len(workload)),
        prompts,
        np.ones_like(prompts) if role == "prefill" else workload.output_tokens,
        priority=0 if workload.priority is None else workload.priority,
        keys=() if keys is None else keys.keys,
        key_offsets=None if keys is None else keys.starts,
        drafts=0 if role == "prefill" else drafts,
        acceptance=acceptance,
        kv_given=np.maximum(prompts - 1, 0) if role == "decode" else 0,
        keeps_blocks=int(role == "prefill"),
    )
    follows = workload.follows
    made.arrival_s[:] = (
        workload.arrival_s if follows is None else np.where(follows < 0, workload.arrival_s, np.nan)
    )
    return made
