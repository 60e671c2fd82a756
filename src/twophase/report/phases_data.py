"""The table of both phases for programs: JSON, CSV and Markdown."""

import json
from typing import Any

from twophase.cost.communication import bubble
from twophase.cost.phases import PhaseRow
from twophase.model.cache import kv_bytes_per_token
from twophase.model.counts import matmul_parameters
from twophase.report.phases import PhasesReport

COLUMNS = (
    *("phase", "prompt_tokens", "batch", "context", "flops", "bytes", "intensity"),
    *("compute_s", "memory_s", "floor_s", "communication_s", "bound", "tokens_per_s"),
)


def to_json(report: PhasesReport) -> str:
    """SI base units; floors are exact, the rest is the textbook's."""
    own, request, deployment = report.phases, report.phases.request, report.deployment
    spec = deployment.spec
    return json.dumps(
        {
            "model": spec.name,
            "accelerator": report.accelerator.name,
            **dict(deployment.plan.sizes),
            "weights": deployment.storage.name,
            "kv": report.kv_format,
            "arithmetic": report.arithmetic,
            "logits": report.logits,
            "matmul_parameters": matmul_parameters(spec),
            "kv_bytes_per_token": kv_bytes_per_token(spec, deployment.kv_bytes),
            "flops_per_s": report.peak_flops,
            "bytes_per_s": report.accelerator.bandwidth,
            "ridge_flop_per_byte": report.ridge,
            "fits": own.residence.fits,
            "needs": own.residence.needs,
            "weights_bytes": own.residence.weights_bytes,
            "excess_bytes": max(0.0, own.residence.excess_bytes),
            "prefill": [{"prompt_tokens": row.tokens, **figures(row)} for row in own.prefill],
            "decode": [{"batch": row.batch, "context": row.tokens, **figures(row)} for row in own.decode],
            "crossover_prompt": own.crossover_prompt,
            "crossover_prompt_floor": own.crossover_prompt_floor,
            "pipeline_bubble": bubble(deployment.plan, 1),
            "request": {
                "prompt_tokens": request.prompt_tokens,
                "output_tokens": request.output_tokens,
                "batch": request.batch,
                "prefill_s": request.prefill_s,
                "prefill_floor_s": request.prefill_floor_s,
                "decode_s": request.decode_s,
                "decode_share": request.decode_share,
            },
        },
        indent=2,
        allow_nan=False,
        ensure_ascii=False,
    )


def to_csv(report: PhasesReport) -> str:
    return "\n".join(",".join(cells) for cells in [COLUMNS, *records(report)])


def to_markdown(report: PhasesReport) -> str:
    rule = ["---" if name in ("phase", "bound") else "---:" for name in COLUMNS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [COLUMNS, rule, *records(report)])


def records(report: PhasesReport) -> list[list[str]]:
    """One row a pass, in COLUMNS; what a phase does not have is empty."""
    rows: list[dict[str, Any]] = [
        {"phase": "prefill", "prompt_tokens": row.tokens, "batch": row.batch, **figures(row)}
        for row in report.phases.prefill
    ]
    rows += [
        {"phase": "decode", "batch": row.batch, "context": row.tokens, **figures(row)}
        for row in report.phases.decode
    ]
    return [[_cell(row.get(name, "")) for name in COLUMNS] for row in rows]


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def figures(row: PhaseRow) -> dict[str, Any]:
    return {
        "flops": row.flops,
        "bytes": row.bytes,
        "intensity": row.intensity,
        "compute_s": row.compute_s,
        "memory_s": row.memory_s,
        "floor_s": row.floor_s,
        "communication_s": row.communication_s,
        "bound": row.bound,
        "tokens_per_s": row.tokens_per_s,
    }
