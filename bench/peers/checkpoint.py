"""Write the checkpoint that all engines run: Qwen3-0.6B's shape, random BF16 weights, a tokenizer of fillers.

python bench/peers/checkpoint.py DIR        (in transformers' environment)
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CONFIG = Qwen3Config(
    vocab_size=151_936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40_960,
    rope_theta=1_000_000.0,
    rms_norm_eps=1e-6,
    tie_word_embeddings=True,
    bos_token_id=151_643,
    eos_token_id=151_645,
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, then words that no text splits into: engines only need one to be there."""
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [f"word{i}" for i in range(CONFIG.vocab_size - len(names))]
    own = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=own, eos_token=names[CONFIG.eos_token_id])


def main(directory: str) -> None:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    Qwen3ForCausalLM(CONFIG).save_pretrained(directory)
    tokenizer().save_pretrained(directory)


if __name__ == "__main__":
    main(sys.argv[1])
