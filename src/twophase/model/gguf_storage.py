"""In which format each weight of a GGUF file is stored, as its header says tensor by tensor."""

import re
from collections import Counter

from twophase.errors import InputError
from twophase.model.formats import FORMATS, Format
from twophase.model.gguf_file import GGUFFile
from twophase.model.module_rules import read_names
from twophase.model.quantization import Storage

# GGML's type numbers (ggml.h).
TYPES = {
    **{0: "float32", 1: "fp16", 30: "bf16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1"},
    **{10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs"},
    **{18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m"},
    **{34: "tq1_0", 35: "tq2_0", 39: "mxfp4"},
}
NAMES = {
    **{"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"},
    **{"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"},
    **{"ffn_down": "mlp.down_proj"},
}
LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def gguf_storage(file: GGUFFile) -> Storage:
    """The most frequent type of the blocks' matrices, and a rule for each that has another."""
    formats = {name: _format(file, name, place.type_id) for name, place in file.tensors.items()}
    matrices = {
        f"layers.{found[1]}.{NAMES[found[2]]}": formats[name]
        for name in formats
        if (found := LAYER.fullmatch(name)) and found[2] in NAMES
    }
    outer = {
        ours: formats[f"{theirs}.weight"]
        for ours, theirs in (("embed_tokens", "token_embd"), ("lm_head", "output"))
        if f"{theirs}.weight" in formats
    }
    if not matrices:
        raise InputError(f"{file.path} holds no layer's matrices")
    ((usual, _),) = Counter(matrices.values()).most_common(1)
    others: dict[Format, list[str]] = {}
    for name, format in (matrices | outer).items():
        if format != usual or name in outer:
            others.setdefault(format, []).append(name)
    rules = tuple((read_names(names, str(file.path)), format) for format, names in others.items())
    return Storage(usual.name, FORMATS["float32"], usual, rules)


def _format(file: GGUFFile, name: str, type_id: int) -> Format:
    if type_id not in TYPES:
        raise InputError(f"{file.path}: tensor {name} is of GGML type {type_id}, which is not known here")
    return FORMATS[TYPES[type_id]]
