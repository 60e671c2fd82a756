"""Print a catalogue entry made from a config.json: the keys without which the model would read otherwise.

    python scripts/catalogue_entry.py CONFIG --name qwen3-8b --title Qwen3-8B --source Qwen/Qwen3-8B

Rules of a quantised checkpoint that name layer after layer become one, where every weight keeps its format.
With --like, only what differs from that entry, whose file must then be the same.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twophase.errors import InputError
from twophase.model.catalogue import NULL, entry_of
from twophase.model.hf_config import spec_from_config
from twophase.model.quantization import read_storage
from twophase.model.stored import outer_stored, stored_layers
from twophase.model.vision import vision_of

Config = dict[str, Any]
Way = tuple[str, ...]

# What a reader of the catalogue looks for, also where a config class would assume the same.
ALWAYS = {
    *("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings", "rope_theta"),
    *("rms_norm_eps", "tie_word_embeddings", "sliding_window", "moe_intermediate_size"),
    *("n_embd", "n_head", "n_layer", "n_positions", "n_inner", "ffn_dim", "quant_method"),
    *("num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok", "n_shared_experts"),
    *("weight_block_size", "num_bits"),
}
DROPPED = {"architectures", "transformers_version", "auto_map", "id2label", "label2id"}
EMPTY: tuple[Any, ...] = ({}, None, False, 0)
WIDTH, INLINE = 110, 150
LAYER = re.compile(r"(?<=layers\.)\d+(?=\.)")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("config", type=Path)
    for flag in ("--name", "--title", "--source"):
        asked.add_argument(flag, required=True)
    asked.add_argument("--also", nargs="*", default=[], help="other names under which it is published")
    asked.add_argument("--like", help="an entry from which it differs in a few keys")
    given = asked.parse_args()
    head: Config = {"title": given.title, "source": given.source}
    head |= {"also": given.also} if given.also else {}
    config = pruned(json.loads(given.config.read_text(encoding="utf-8")))
    if given.like:
        head["like"] = given.like
        config = differing(config, given.like)
    print(table(given.name, {**head, **config}))


def meaning(config: Config) -> object:
    """All that is read from a config; None where it is refused."""
    try:
        spec, storage = spec_from_config(config, "", ""), read_storage(config, "")
        seen = vision_of(config, "")
    except InputError:
        return None
    stored = [[each.format for each in layer] for layer in stored_layers(spec, storage)]
    return spec, stored, [each.format for each in outer_stored(spec, storage)], storage.kv, seen


def pruned(config: Config) -> Config:
    """The config without what changes nothing; what a reader looks for stays."""
    config = {key: value for key, value in config.items() if key not in DROPPED}
    whole = meaning(config)
    if whole is None:
        raise SystemExit("twophase can't read this config")
    for path in [path for path in _paths(config) if "quantization_config" in path]:
        config = _shorter(config, path, whole)
    for key, value in config.items():
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            config = _pruned_blocks(config, key, whole)
    for path in list(_paths(config)):
        if path[-1] not in ALWAYS or _at(config, path) is None:
            without = _replaced(config, path, None, drop=True)
            if meaning(without) == whole:
                config = without
    return config


def _pruned_blocks(config: Config, key: str, whole: object) -> Config:
    """A list of objects, one a layer: without the values that change nothing wherever they stand."""
    for path in dict.fromkeys(path for block in config[key] for path in _paths(block)):
        for value in EMPTY:
            blocks = [
                _replaced(block, path, None, drop=True) if _at(block, path) == value else block
                for block in config[key]
            ]
            if blocks != config[key] and meaning({**config, key: blocks}) == whole:
                config = {**config, key: blocks}
    return config


def _shorter(config: Config, path: Way, whole: object) -> Config:
    """One rule for all layers instead of one for each, and none that speaks of nothing."""
    rules = _at(config, path)
    if isinstance(rules, dict) and len(rules) > 8:
        general = _replaced(config, path, {LAYER.sub("*", rule): how for rule, how in rules.items()})
        return general if meaning(general) == whole else config
    if not isinstance(rules, list) or not all(isinstance(each, str) for each in rules):
        return config
    kept = list(rules)
    for each in dict.fromkeys(LAYER.sub("*", rule) for rule in rules):
        fewer = list(dict.fromkeys(each if LAYER.sub("*", rule) == each else rule for rule in kept))
        if meaning(_replaced(config, path, fewer)) == whole:
            kept = fewer
    for rule in list(kept):
        fewer = [each for each in kept if each != rule]
        if fewer and rule != "lm_head" and meaning(_replaced(config, path, fewer)) == whole:
            kept = fewer
    return _replaced(config, path, kept)


def differing(config: Config, like: str) -> Config:
    found = entry_of(like)
    if found is None:
        raise SystemExit(f"the catalogue has no {like}")
    return {key: value for key, value in config.items() if found[1].get(key) != value}


def _paths(config: Config, at: Way = ()) -> Iterator[Way]:
    """Every key, what is inside an object after the object itself."""
    for key, value in config.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from _paths(value, (*at, key))


def _at(config: Config, path: Way) -> Any:
    for key in path:
        config = config.get(key, {}) if isinstance(config, dict) else {}
    return config


def _replaced(config: Config, path: Way, value: Any, drop: bool = False) -> Config:
    key, *rest = path
    if key not in config:
        return config
    if rest:
        return {**config, key: _replaced(config[key], tuple(rest), value, drop)}
    return {k: v for k, v in config.items() if k != key} if drop else {**config, key: value}


def table(name: str, entry: Config) -> str:
    """As TOML: plain keys, then short objects on a line, then long ones as tables of their own."""
    return "\n".join(_table(f'["{name}"]', entry))


def _table(header: str, entry: Config) -> list[str]:
    lines, long = [header], {}
    missing = [key for key, value in entry.items() if value is None]
    for key, value in entry.items():
        if isinstance(value, dict) and len(_inline(value)) + len(key) > INLINE:
            long[key] = value
        elif value is not None:
            lines += _assignment(key, value)
    lines += _assignment(NULL, missing) if missing else []
    for key, value in long.items():
        lines += _table(f"{header[:-1]}.{_key(key)}]", value)
    return lines


def _assignment(key: str, value: Any) -> list[str]:
    line = f"{_key(key)} = {_inline(value)}"
    if not isinstance(value, list) or len(line) <= WIDTH:
        return [line]
    lines, row = [f"{key} = ["], "   "
    for each in map(_inline, value):
        if row.strip() and len(row) + len(each) + 2 > WIDTH:
            lines, row = [*lines, row], "   "
        row += f" {each},"
    return [*lines, row, "]"]


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items() if each is not None)
        missing = [key for key, each in value.items() if each is None]
        inner += f", {NULL} = {_inline(missing)}" if missing else ""
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else json.dumps(key)


if __name__ == "__main__":
    main()
