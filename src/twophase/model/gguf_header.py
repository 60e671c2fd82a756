"""ModelSpec from a GGUF file's header. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

The header is translated to the keys of config.json, whose readers build the network; what biases and norms
it has, the tensors tell.
"""

from dataclasses import replace
from pathlib import Path

from twophase.model.gguf_families import translate
from twophase.model.gguf_file import GGUFFile
from twophase.model.gguf_keys import Header
from twophase.model.gguf_parts import read_whole, whole
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention, GatedDelta, Mixer
from twophase.model.spec import MLP, Layer, ModelSpec


def read_gguf_spec(path: Path) -> ModelSpec:
    """InputError where the file is damaged or cut off, or its architecture or a needed key is not known."""
    return spec_from_gguf(read_whole(path))


def spec_from_gguf(file: GGUFFile) -> ModelSpec:
    """Of a model that is split over several files too, whichever of them this is."""
    header, config = translate(whole(file))
    name = header.file.metadata.get("general.name")
    called = name if isinstance(name, str) and name else file.path.stem
    spec = spec_from_config(config, called, str(file.path))
    layers = {layer: _as_stored(layer, header) for layer in set(spec.layers)}
    return replace(
        spec,
        layers=tuple(layers[layer] for layer in spec.layers),
        head_bias="output.bias" in header.file.tensors,
    )


def _as_stored(layer: Layer, header: Header) -> Layer:
    """With the biases and norms that the file has tensors for, and its projections apart where they are."""
    block = layer.feed_forward
    if isinstance(block, MLP):
        block = replace(block, bias=header.stores("ffn_up.bias"))
    return replace(
        layer, mixers=tuple(_mixer_as_stored(each, header) for each in layer.mixers), feed_forward=block
    )


def _mixer_as_stored(mixer: Mixer, header: Header) -> Mixer:
    if isinstance(mixer, GatedDelta):
        return replace(mixer, fused=not header.stores("attn_gate.weight"))
    if not isinstance(mixer, Attention):
        return mixer
    return replace(
        mixer,
        qkv_bias=header.stores("attn_q.bias") or header.stores("attn_qkv.bias"),
        out_bias=header.stores("attn_output.bias"),
        qk_norm=header.stores("attn_q_norm.weight") and not mixer.qk_norm_wide,
    )
