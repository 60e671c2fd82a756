"""Write docs/architectures.md: what is read of every config.json of a folder, and every model_type known.

    python scripts/architectures_table.py DIR

DIR holds ORGANISATION--NAME.json files and, where counts are to be held against it, a params.csv with the
columns file, total_params_text (transformers' count), published_total_B and published_active_B.
"""

import csv
import inspect
import sys
from pathlib import Path

from twophase.errors import InputError
from twophase.model.cache import kv_bytes_per_token, kv_bytes_per_token_unbounded, state_bytes
from twophase.model.catalogue import Model, load_model
from twophase.model.counts import parameters
from twophase.model.families import MODULE_OF, READERS
from twophase.model.served import unsaid_format
from twophase.model.stored import weights_bytes

TARGET = Path("docs/architectures.md")
COLUMNS = (
    *("config", "family", "total", "active", "of transformers", "published", "stored", "GB"),
    *("KV/token", "state", "vision"),
)
ALIGNED = "|---|---|--:|--:|---|---|---|--:|--:|--:|--:|"
INTRODUCTION = """# Architectures

Written by `python scripts/architectures_table.py DIR`.

## Configs of published models

Parameters are of the text model: all of them, and those that one token uses, embedding and head included.

- *of transformers*: "equal" where the total is, to the last parameter, that of transformers' model on
  the meta device; – where transformers 5.24 has no such class.
- *published*: total and active in billions, as the model's card or paper says; Gemma 3's with vision.
- *stored*: the format of the checkpoint, as its config says, and what the weights take, with scales and zero
  points. "not said": a checkpoint named after a smaller format whose config doesn't say so;
  `hf_quant_config.json` beside it does, and is read where it is there.
- *KV/token*: bytes in BF16 of all layers while no window is reached / once all are full.
- *state*: bytes a sequence, whatever its length.
- *vision*: parameters of towers and projectors, counted in none of the others.
"""
NOTES = """
Step-3.7-Flash: transformers' class ignores the vocabulary of a flat file and has its own, 128,815 tokens; the
file says 128,896, and so does this table.
"""


def main(folder: Path) -> None:
    rows, refused = [], []
    totals = _totals(folder / "params.csv")
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem.lower()):
        name = path.stem.replace("--", "/", 1)
        try:
            rows.append(_row(name, load_model(str(path)), totals.get(path.stem, {})))
        except InputError as error:
            refused.append(f"- {name}: {str(error).replace(str(path), 'config.json')}")
    lines = [INTRODUCTION, f"{len(rows)} are read, {len(refused)} refused.\n"]
    lines += [*refused, ""] if refused else []
    lines += [f"| {' | '.join(COLUMNS)} |", ALIGNED, *rows, NOTES, *_known()]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _totals(path: Path) -> dict[str, dict[str, str]]:
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def _row(name: str, model: Model, published: dict[str, str]) -> str:
    spec, own = model.spec, parameters(model.spec)
    each, growing = kv_bytes_per_token(spec), kv_bytes_per_token_unbounded(spec)
    theirs = published.get("total_params_text")
    claims = [published.get(f"published_{what}_B") for what in ("total", "active")]
    said = unsaid_format(model) is None
    vision = "" if model.vision is None else "not counted"
    if model.vision and model.vision.parameters is not None:
        vision = f"{model.vision.parameters:,}"
    cells = (
        name,
        spec.family,
        f"{own.total:,}",
        "" if own.active == own.total else f"{own.active:,}",
        "–" if not theirs else "equal" if int(theirs) == own.total else f"{own.total - int(theirs):+,}",
        " / ".join(dict.fromkeys(claim for claim in claims if claim)),
        model.storage.name if said else "not said",
        f"{weights_bytes(spec, model.storage) / 1e9:,.1f}" if said else "",
        f"{each:,.0f}" if each == growing else f"{each:,.0f} / {growing:,.0f}",
        f"{state_bytes(spec):,.0f}" if state_bytes(spec) else "",
        vision,
    )
    return f"| {' | '.join(cells)} |"


def _known() -> list[str]:
    """Readers in the order of their modules, each with the model_types that it reads."""
    by_reader: dict[object, list[str]] = {}
    for model_type in READERS:
        by_reader.setdefault(READERS[model_type], []).append(model_type)
    lines = [
        "## Every `model_type` that is read\n",
        f"{len(READERS)} of them, and the multimodal wrappers that hold one as `text_config`, `llm_config`",
        "or `language_config`. Any other is refused with a line that names it.\n",
        "| model_type | module of model/families | what is special |",
        "|---|---|---|",
    ]
    for reader, types in by_reader.items():
        words = (inspect.getdoc(reader) or "").partition("\n")[0]
        named = ", ".join(f"`{each}`" for each in types)
        lines.append(f"| {named} | {MODULE_OF[types[0]]} | {words} |")
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
