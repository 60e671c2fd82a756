"""The checkpoint as GGUF files: BF16, and F16, Q8_0 and Q4_0 by llama.cpp's own quantiser.

python bench/peers/checkpoint_gguf.py CHECKPOINT DIR        (in llama.cpp's environment)
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
from numpy.typing import NDArray

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
QUANTISED = {
    "f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16,
    "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
}


def tensors(path: Path) -> dict[str, NDArray[np.uint16]]:
    """A safetensors file of BF16, as bits: NumPy has no such type."""
    data = np.memmap(path, np.uint8, "r")
    header = 8 + int(data[:8].view(np.uint64)[0])
    stored: dict[str, Any] = json.loads(data[8:header].tobytes())
    stored.pop("__metadata__", None)
    return {
        name: data[header + each["data_offsets"][0] : header + each["data_offsets"][1]]
        .view(np.uint16)
        .reshape(each["shape"])
        for name, each in stored.items()
    }


def gguf_name(name: str) -> str:
    inner = name.removeprefix("model.").removesuffix(".weight")
    if inner in ("embed_tokens", "norm"):
        return {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}[inner]
    _, layer, rest = inner.split(".", 2)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def write(checkpoint: Path, path: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")  # token ids in, token ids out
    for name, bits in tensors(checkpoint / "model.safetensors").items():
        if name == "lm_head.weight":  # tied
            continue
        if bits.ndim == 1:
            writer.add_tensor(gguf_name(name), (bits.astype(np.uint32) << 16).view(np.float32))
        else:
            writer.add_tensor(gguf_name(name), bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(checkpoint: Path, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    whole = directory / "model-bf16.gguf"
    write(checkpoint, whole)
    for name, kind in QUANTISED.items():
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype, params.nthread = kind, 2
        if llama_cpp.llama_model_quantize(bytes(whole), bytes(directory / f"model-{name}.gguf"), params):
            sys.exit(f"llama.cpp could not quantise to {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
