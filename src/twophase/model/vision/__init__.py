"""What a multimodal config holds beside its language model: towers and projectors, counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twophase.model.keys import Keys
from twophase.model.vision.gemma4_towers import AUDIO
from twophase.model.vision.parts import size
from twophase.model.vision.tower import Tower
from twophase.model.vision.wrappers import TEXT_WIDTHS, WRAPPERS, Projector, Wrapper, gemma4_audio

VISION_CONFIG, AUDIO_CONFIG = "vision_config", "audio_config"


@dataclass(frozen=True, slots=True)
class Vision:
    """`parameters`: of towers and projectors. All numbers are None where the kind of tower is not known."""

    name: str  # the tower's model_type; of two towers 'vision + audio'
    parameters: int | None
    layers: int | None  # of the vision tower, or of the audio tower where it stands alone
    d_model: int | None


def vision_of(config: Mapping[str, Any], where: str) -> Vision | None:
    """The towers of a wrapper's config.json, None where it has none.

    As transformers 5.24 builds them, with the defaults of its config classes; a wrapper whose class always
    has a tower has one where the file is silent. InputError names a key whose value is wrong.
    `where`: how error messages call the config.
    """
    model_type = config.get("model_type")
    wrapper = WRAPPERS.get(model_type) if isinstance(model_type, str) else None
    found = [part for part in (_vision(config, where, wrapper), _audio(config, where, wrapper)) if part]
    if not found:
        return None
    counts = [part.parameters for part in found if part.parameters is not None]
    return Vision(
        " + ".join(part.name for part in found),
        sum(counts) if len(counts) == len(found) else None,
        found[0].layers,
        found[0].d_model,
    )


def _vision(config: Mapping[str, Any], where: str, wrapper: Wrapper | None) -> Vision | None:
    held = config.get(VISION_CONFIG)
    if wrapper is None:
        return None if held is None else _not_counted(config, held)
    if held is None:
        if wrapper.without is None:
            return None
        held = wrapper.without
    outer = Keys({**config, VISION_CONFIG: held}, wrapper.defaults, where)
    tower = _tower(wrapper, outer)
    if tower is None:
        return _not_counted(config, held)
    return _counted(outer, VISION_CONFIG, tower, wrapper.projector, wrapper.text)


def _tower(wrapper: Wrapper, outer: Keys) -> Tower | None:
    """The tower that the file names; where the class is fixed, the name is often wrong and not read."""
    named = outer.inner(VISION_CONFIG).get("model_type")
    if wrapper.others is None or not named:
        return wrapper.tower
    return {tower.name: tower for tower in (wrapper.tower, *wrapper.others)}.get(str(named))


def _audio(config: Mapping[str, Any], where: str, wrapper: Wrapper | None) -> Vision | None:
    held = config.get(AUDIO_CONFIG)
    if held is None:
        return None
    if wrapper is None or config["model_type"] != "gemma4":
        return _not_counted(config, held)
    return _counted(Keys(config, {}, where), AUDIO_CONFIG, AUDIO, gemma4_audio, wrapper.text)


def _counted(outer: Keys, part: str, tower: Tower, projector: Projector | None, text: str) -> Vision:
    inner = outer.inner(part)
    keys = Keys(inner.config, tower.defaults, inner.where)
    parameters = tower.parameters(keys)
    if projector:
        parameters += projector(outer, keys, _text_width(outer, text))
    return Vision(tower.name, parameters, size(keys, *tower.layers), size(keys, *tower.width))


def _text_width(outer: Keys, otherwise: str) -> int:
    """The language model's d_model; in a flat file it stands among the wrapper's own keys."""
    if outer.get("text_config") is None:
        return outer.count("hidden_size", TEXT_WIDTHS[otherwise])
    text = outer.inner("text_config")
    return text.count("hidden_size", TEXT_WIDTHS.get(str(text.get("model_type", otherwise))))


def _not_counted(config: Mapping[str, Any], held: Any) -> Vision:
    named = held.get("model_type") if isinstance(held, Mapping) else None
    name = " ".join(
        str(named or config.get("model_type") or "not named").split()
    )  # one line, whatever it holds
    return Vision(name[:80], None, None, None)
