"""Where a family's rotary pairs lie side by side, its heads are laid out in halves, as all others are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tiny_models import HEADS, TINY
from transformers.models.ernie4_5 import modeling_ernie4_5 as ernie
from transformers.models.helium import modeling_helium as helium
from transformers.models.llama import modeling_llama as llama

from twophase.engine.weights import open_weights
from twophase.model.catalogue import load_spec


@pytest.mark.parametrize(
    ("model", "theirs"),
    [
        (tf.HeliumForCausalLM(tf.HeliumConfig(**TINY, **HEADS)), helium),
        (tf.Ernie4_5ForCausalLM(tf.Ernie4_5Config(**TINY, **HEADS)), ernie),
    ],
    ids=["helium", "ernie4_5"],
)
def test_scores_are_those_of_pairs_side_by_side(
    model: tf.PreTrainedModel, theirs: Any, tmp_path: Path
) -> None:
    """Queries and keys of the reordered rows, rotated as Llama rotates, meet as the family's own do."""
    model.save_pretrained(tmp_path)
    source = open_weights(tmp_path, load_spec(str(tmp_path)))
    torch.manual_seed(0)
    rows, positions = torch.randn(5, 64), torch.arange(5)[None] + 3
    theta = model.config.rope_parameters["rope_theta"]
    halves = llama.LlamaRotaryEmbedding(tf.LlamaConfig(**TINY, **HEADS, rope_theta=theta))

    def scores(q: torch.Tensor, k: torch.Tensor, module: Any, angles: Any) -> torch.Tensor:
        heads = [(rows @ each.T).reshape(1, 5, -1, 16).transpose(1, 2) for each in (q, k)]
        queries, keys = module.apply_rotary_pos_emb(*heads, *angles(rows[None], positions))
        return queries @ keys.repeat_interleave(2, dim=1).transpose(2, 3)

    own = model.model.layers[1].self_attn
    truth = scores(own.q_proj.weight, own.k_proj.weight, theirs, model.model.rotary_emb)
    q, k = (torch.from_numpy(np.array(source.tensor(f"layers.1.{name}"))) for name in "qk")
    torch.testing.assert_close(scores(q, k, llama, halves), truth)
    np.testing.assert_array_equal(source.tensor("layers.1.q", slice(3, 29)), q[3:29])
