"""GGML's types of tensors by number (ggml.h): which storage format each is, and how many bytes it takes."""

import math

from twophase.errors import InputError
from twophase.model.formats import FORMATS, Format
from twophase.model.gguf_file import TensorPlace

TYPES = {
    **{0: "float32", 1: "fp16", 30: "bf16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1"},
    **{10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs"},
    **{18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m"},
    **{34: "tq1_0", 35: "tq2_0", 39: "mxfp4", 40: "nvfp4", 41: "q1_0"},
}


def format_of(where: str, name: str, place: TensorPlace) -> Format:
    """InputError where the tensor `name` is of a type that is not known."""
    if place.type_id not in TYPES:
        raise InputError(f"{where}: tensor {name} is of GGML type {place.type_id}, which is not known here")
    return FORMATS[TYPES[place.type_id]]


def byte_count(place: TensorPlace) -> int:
    """Bytes that a tensor takes in its file, whose blocks are whole; 0 for a type that is not known here."""
    called = TYPES.get(place.type_id)
    bits = FORMATS[called].bits_per_weight if called else 0
    return math.floor(math.prod(place.shape) * bits / 8)
