"""Rows of measured serving points as deployments: what their columns mean, and what they leave out.

The public table joins several dumps of the same benchmark, which record parallelism in different ways:
- an aggregated "tp 64, moe 8 x 8" is TP 8 with EP 8, as the same measurement stands in another dump as such;
- vLLM's "tp 4, attention dp 4, moe 1 x 16" are four devices; "tp 72" of an NVL72 is data-parallel attention;
- pools of two dumps say neither how many workers there are nor whether attention is data parallel: both are
  taken as the rows that do say it have it (see `_unsaid`). Clients stand in the source's text.
Lengths are drawn from 80 to 100 % of the nominal ones in InferenceX's sweeps; how it sets the engines stands
in serving_settings.py. Of the runs of aiconfigurator's authors, those of 1,024, 2,048 and 4,096 tokens go in
step; those of 1,000 to 8,000 wait no longer than sweeps do. DeepSeek on TensorRT-LLM 1.2.0rc6.post3, and on
1.1.0rc2.post2 from 2026 on, is taken to be run with drafts, which no column says: the same points of
1.2.0rc6.post2 take 1.4 to 2 times as long a token.
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from serving_settings import chunk_of, looks_of

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import load_accelerator
from twophase.lint.names import Models, network_of
from twophase.lint.plans import has_experts, pool_plan, stated_plan, steps_plan, workers_of
from twophase.model.catalogue import Model, load_model
from twophase.model.formats import FORMATS
from twophase.model.module_rules import read_names
from twophase.model.quantization import UNQUANTISED, Storage, uniform
from twophase.results import Point
from twophase.results.reading import read_points
from twophase.simulate.steady import CHUNK, held_sequences

MANY_CLIENTS = 512  # from which on a pool's attention is taken to be data parallel
MEAN_LENGTH = 0.9
CLIENTS_OF_A_WORKER = 48
STEP = 1024


@dataclass(frozen=True, slots=True)
class Row:
    point: Point
    model: str
    engine: str
    system: str
    accelerator: Accelerator
    decode: Deployment
    prefill: Deployment
    workers: int
    prompt_workers: int
    clients: float
    prompt: float
    output: float
    drafts: str  # "", "known" or "perhaps"
    in_step: bool  # all requests are equally long
    looks: float  # passes from one look for new requests to the next
    chunk: float  # rows of prompts in a pass
    known: bool  # false where workers are a guess


def read_rows(path: Path, models: Models) -> tuple[list[Row], list[tuple[str, str]]]:
    """(rows, [(row, why it can't be read)])."""
    loaded: dict[str, Model] = {}
    found, refused = [], []
    for point in read_points(path):
        try:
            name = models.find(point.model or "")
            if name not in loaded:
                loaded[name] = load_model(name)
            found.append(row_of(point, loaded[name]))
        except ValueError as error:
            refused.append((point.row, str(error)))
    return found, refused


def row_of(point: Point, model: Model) -> Row:
    source = point.unknown.get("silicon_data_source", "")
    sparse, dump = has_experts(model.spec), source[12:22]
    said = re.search(r"silicon_concurrency=(\d+)", source)
    workers = workers_of(point, "decode")
    clients = float(said[1]) if said else point.concurrency or CLIENTS_OF_A_WORKER * float(workers or 1)
    storage = storage_of(model, point.weights or network_of(point.model or "")[1])
    wide = storage.name in UNQUANTISED or "mxfp4" in storage.name
    own = Deployment(model.spec, storage, 2.0 if wide else 1.0)
    prompt_workers = workers_of(point, "prefill")
    accelerator = load_accelerator(point.gpu or "")
    if point.disaggregated:
        prefill, decode = (
            _pool(point, pool, sparse, clients) if sparse else pool_plan(point, pool)
            for pool in ("prefill", "decode")
        )
        if not workers:
            workers, prompt_workers = _unsaid(point, decode, clients, accelerator.name)
            laid_out = replace(own, plan=steps_plan(decode, sparse))
            tokens = (point.input_tokens or 1) + (point.output_tokens or 1)
            room = held_sequences(laid_out, accelerator, tokens) * decode.dp
            workers = max(workers, math.ceil(clients / room))  # whoever sizes a pool sees that it holds them
    else:
        decode = prefill = _aggregated(point, sparse, dump)
        workers = prompt_workers = 1
    sweep = "auto-gap" not in source
    scale = MEAN_LENGTH if sweep and "gap-analysis" not in source else 1.0
    engine = (point.engine or "vllm").lower()
    looks = looks_of(point, engine, accelerator.name, decode.dp > 1, clients) if sweep else 1.0
    return Row(
        point=point,
        model=model.spec.name.split("--")[-1],
        engine=engine,
        system=accelerator.name,
        accelerator=accelerator,
        decode=replace(own, plan=steps_plan(decode, sparse)),
        prefill=replace(own, plan=steps_plan(prefill, sparse)),
        workers=workers,
        prompt_workers=prompt_workers or 1,
        clients=max(1.0, clients),
        prompt=max(1.0, scale * (point.input_tokens or 1)),
        output=max(1.0, scale * (point.output_tokens or 1)),
        drafts=_drafts(point, source),
        in_step=not sweep and (point.input_tokens or 1) % STEP == 0,
        looks=looks,
        chunk=chunk_of(point, engine, clients, storage.name == "nvfp4") if sweep else float(CHUNK),
        known=not point.disaggregated or bool(workers_of(point, "decode")),
    )


def storage_of(model: Model, weights: str | None) -> Storage:
    """As checkpoints of that format are: of a mixture, 4 bits are the experts' alone."""
    published = model.storage
    if weights is None:
        return uniform("bf16") if published.name in UNQUANTISED else published
    weights = "nvfp4" if weights == "fp4" else weights
    if weights in published.name or (weights == "nvfp4" and "mxfp4" in published.name):
        return published
    if has_experts(model.spec) and FORMATS[weights].bits < 8:
        rest = published.linear if published.linear.bits == 8 else FORMATS["bf16"]
        rules = ((read_names(("experts",), weights, False), FORMATS[weights]),)
        return Storage(weights, FORMATS["bf16"], rest, rules)
    return uniform(weights)


def _moe(point: Point, prefix: str = "") -> tuple[int, int]:
    """(cut by TP, dealt over) of the experts."""
    cells = (point.unknown.get(f"{prefix}moe_tp_size"), point.unknown.get(f"{prefix}moe_ep_size"))
    cut, dealt = (int(float(cell)) if cell else 0 for cell in cells)
    return cut, dealt if prefix else int(point.ep or 0)


def _aggregated(point: Point, sparse: bool, dump: str) -> Plan:
    plan, (cut, dealt) = stated_plan(point, []), _moe(point)
    if not sparse:
        return plan
    if plan.tp > 8 and dealt == 1:
        return Plan(1, 1, plan.tp, plan.tp)
    if cut == dealt > 1 and dump != "2026-03-25":
        if plan.tp == cut * dealt:
            return Plan(cut, 1, dealt, 1)
        if plan.dp == cut * dealt:
            return Plan(1, 1, dealt, cut)
    if plan.tp > 1 and plan.dp > 1 and dealt == plan.tp * plan.dp:
        return Plan(plan.tp, 1, plan.tp, 1)
    return plan


def _pool(point: Point, pool: str, sparse: bool, clients: float) -> Plan:
    plan, (_, dealt) = pool_plan(point, pool), _moe(point, f"{pool}_")
    width, crowded = plan.tp, pool == "decode" and clients >= MANY_CLIENTS
    if plan.dp > 1:
        return Plan(plan.tp, plan.pp, plan.tp * plan.dp if dealt > 1 or plan.dp > 8 else plan.ep, plan.dp)
    if dealt <= 1 and width <= 8 and not (crowded and width == 8):
        return plan
    if pool == "prefill" or width > 8 or crowded:
        return Plan(1, plan.pp, width, width)
    return Plan(width, plan.pp, width, 1)


def _unsaid(point: Point, decode: Plan, clients: float, system: str) -> tuple[int, int]:
    """(workers that decode, workers for prompts) as rows that say them have them: a guess."""
    short = (point.input_tokens or 0) <= 2048
    rack, hopper, trtllm = system.startswith("gb"), system.startswith("h"), point.engine == "trtllm"
    width = decode.tp * decode.dp
    if width > 8:
        workers = 1
    elif decode.dp > 1 and short:
        workers = 7 if hopper else 1 if rack else 3
    elif decode.dp > 1:
        workers = 3 if hopper and trtllm else 1
    elif trtllm:
        workers = 9 if hopper and short else 5 if short and not rack else 4
    else:
        workers = 3 if short else 4 if width == 4 else 1
    prompts = (1 if clients < 1500 else 2) if short else 1 if clients < 200 else 3 if clients < 1000 else 6
    return max(1, int(min(workers, clients))), prompts


def _drafts(point: Point, source: str) -> str:
    if "DeepSeek" not in (point.model or ""):
        return ""
    if point.disaggregated:
        return "perhaps" if not workers_of(point, "decode") else ""
    version = point.unknown.get("backend_version", "")
    dated = re.search(r"measured=(\d+)", source)
    late = version == "1.1.0rc2.post2" and dated is not None and int(dated[1]) >= 2026
    return "known" if point.engine == "trtllm" and (version == "1.2.0rc6.post3" or late) else ""
