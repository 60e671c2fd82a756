"""Write src/twophase/model/families/defaults.json: what each config class assumes where a file is silent.

Needs transformers (Apache-2.0), whose config classes are the source. Run it again when a family is added:

    python scripts/config_defaults.py
"""

import dataclasses
import json
from pathlib import Path

import transformers
from transformers import CONFIG_MAPPING, PretrainedConfig

from twophase.model.families import READERS

TARGET = Path("src/twophase/model/families/defaults.json")
UNUSED = ("dropout", "pdrop", "token_id", "initializer", "use_cache", "output_router", "aux_loss", "jitter")


def defaults_of(model_type: str) -> dict[str, object]:
    """The class's own plain defaults; those that it computes are the readers' business."""
    common = {field.name for field in dataclasses.fields(PretrainedConfig)} - {"tie_word_embeddings"}
    fields = dataclasses.fields(CONFIG_MAPPING[model_type])
    return {
        field.name: field.default
        for field in fields
        if isinstance(field.default, int | float | str | list)
        and field.name not in common
        and not any(part in field.name for part in UNUSED)
    }


def main() -> None:
    known = [each for each in sorted(READERS) if each in CONFIG_MAPPING]
    table = {"source": f"transformers {transformers.__version__}, configuration_*.py (Apache-2.0)"}
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()]
    rows += [f"{json.dumps(each)}: {json.dumps(defaults_of(each), sort_keys=True)}" for each in known]
    TARGET.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
