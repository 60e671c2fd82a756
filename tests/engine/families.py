"""Small models of every family that the engine runs, by transformers' own classes, with random weights."""

from pathlib import Path

import numpy as np
import torch
import transformers as tf

VOCABULARY = 500
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ODD = SHAPE | {"vocab_size": 499, "hidden_size": 60, "intermediate_size": 90}
EXPERTS = {"num_experts": 10, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 60, "n_layer": 3, "n_head": 3, "n_positions": 512, **IDS}
MULTIPLIERS = {
    "embedding_multiplier": 2.5,
    "residual_multiplier": 0.6,
    "attention_multiplier": 0.11,
    "logits_scaling": 3.0,
}
SLIDING_FIRST = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
MODELS = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SHAPE)),
    "llama with biases, rope stretched": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3)
    ),
    "mistral, sliding": lambda: tf.MistralForCausalLM(tf.MistralConfig(**SHAPE, sliding_window=20)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**SHAPE, tie_word_embeddings=True)),
    # heads times head_dim is not d_model, and nothing is a multiple of 16
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**ODD, head_dim=20)),
    "gemma": lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**SHAPE, head_dim=24)),
    "gemma2": lambda: tf.Gemma2ForCausalLM(
        tf.Gemma2Config(
            **SHAPE | SLIDING_FIRST,
            head_dim=32,
            sliding_window=24,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0,
            attn_implementation="eager",  # SDPA leaves the cap out
        )
    ),
    "gemma3": lambda: tf.Gemma3ForCausalLM(
        tf.Gemma3TextConfig(**SHAPE | SLIDING_FIRST, head_dim=32, sliding_window=24)
    ),
    "phi3": lambda: tf.Phi3ForCausalLM(tf.Phi3Config(**SHAPE, **IDS)),
    "phi3, a part rotated": lambda: tf.Phi3ForCausalLM(
        tf.Phi3Config(**SHAPE, **IDS, partial_rotary_factor=0.75, tie_word_embeddings=True)
    ),
    "gpt2": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)),
    "starcoder2": lambda: tf.Starcoder2ForCausalLM(tf.Starcoder2Config(**SHAPE, sliding_window=24)),
    "stablelm": lambda: tf.StableLmForCausalLM(tf.StableLmConfig(**SHAPE, use_qkv_bias=True)),
    "granite": lambda: tf.GraniteForCausalLM(tf.GraniteConfig(**SHAPE, **MULTIPLIERS)),
    "olmo2": lambda: tf.Olmo2ForCausalLM(tf.Olmo2Config(**SHAPE, **IDS)),
    "olmo3": lambda: tf.Olmo3ForCausalLM(tf.Olmo3Config(**SHAPE | SLIDING_FIRST, **IDS, sliding_window=24)),
    # its third layer is not rotated
    "smollm3": lambda: tf.SmolLM3ForCausalLM(
        tf.SmolLM3Config(**SHAPE, **IDS, no_rope_layer_interval=3, no_rope_layers=[1, 1, 0])
    ),
    "seed_oss": lambda: tf.SeedOssForCausalLM(tf.SeedOssConfig(**SHAPE, **IDS, head_dim=16)),
    "arcee": lambda: tf.ArceeForCausalLM(tf.ArceeConfig(**SHAPE, **IDS)),
    "helium": lambda: tf.HeliumForCausalLM(tf.HeliumConfig(**SHAPE, **IDS, head_dim=16)),
    "ernie4_5": lambda: tf.Ernie4_5ForCausalLM(tf.Ernie4_5Config(**SHAPE, **IDS, head_dim=16)),
    "mixtral": lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**SHAPE, **LOCAL)),
    "qwen2_moe": lambda: tf.Qwen2MoeForCausalLM(
        tf.Qwen2MoeConfig(**SHAPE, **EXPERTS, shared_expert_intermediate_size=48)
    ),
    "qwen3_moe": lambda: tf.Qwen3MoeForCausalLM(
        tf.Qwen3MoeConfig(**SHAPE, **EXPERTS, head_dim=16, norm_topk_prob=True, mlp_only_layers=[1])
    ),
    "olmoe": lambda: tf.OlmoeForCausalLM(tf.OlmoeConfig(**SHAPE, num_experts=6, num_experts_per_tok=2)),
    "granitemoeshared": lambda: tf.GraniteMoeSharedForCausalLM(
        tf.GraniteMoeSharedConfig(**SHAPE, **LOCAL, **MULTIPLIERS, shared_intermediate_size=48)
    ),
}


def made(kind: str, seed: int) -> tf.PreTrainedModel:
    """Random weights that keep activations near one, so that every layer matters."""
    torch.manual_seed(seed)
    model = MODELS[kind]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                turned = kind == "gpt2" and name.startswith("transformer.h")
                parameter.normal_(std=parameter.shape[-2 if turned else -1] ** -0.5)
            else:
                shifted = kind.startswith("gemma") or "bias" in name
                parameter.normal_(mean=0.0 if shifted else 1.0, std=0.2)
    return model


def saved(model: tf.PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def prompt_of(tokens: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(3, VOCABULARY - 1, tokens).tolist()


def true_logits(model: tf.PreTrainedModel, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()
