"""transformers' models on the meta device, and what they count of themselves."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from twophase.model.counts import matmul_parameters, parameters
from twophase.model.hf_config import read_hf_config
from twophase.model.spec import ModelSpec


def meta_model(model_type: str, device: str = "meta", **keys: Any) -> PreTrainedModel:
    """On the device meta a model has shapes and no memory."""
    with torch.device(device):
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**keys))


def unique_parameters(model: nn.Module) -> int:
    """Tied weights once; buffers not at all."""
    return sum({id(each): each.numel() for each in model.parameters()}.values())


def linear_parameters(model: nn.Module) -> int:
    """Of the matrices that rows are multiplied by: linear layers, a tied head included."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear | Conv1D)]
    return sum(module.weight.numel() for module in linear)


def read_as_counted(model: PreTrainedModel, folder: Path) -> ModelSpec:
    """Our reading of the config that transformers saves, whose counts are the model's own."""
    model.config.save_pretrained(folder)
    spec = read_hf_config(folder)
    assert parameters(spec).total == unique_parameters(model)
    assert matmul_parameters(spec) == linear_parameters(model)
    assert spec.tied_embeddings == (
        model.get_input_embeddings().weight is model.get_output_embeddings().weight
    )
    return spec


def cached_elements(model: PreTrainedModel, tokens: int = 3) -> int:
    """Elements of keys and values that a pass over `tokens` leaves in the model's own cache."""
    ids = torch.zeros((1, tokens), dtype=torch.long, device=model.device)
    cache = model.eval()(ids, use_cache=True).past_key_values
    return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
