"""What the engine holds of a model, in the cost model's words."""

from twophase.cost.deployment import Deployment
from twophase.cost.pass_ import Pass, Span
from twophase.cost.price import price_of
from twophase.engine.kv import KVFormat
from twophase.engine.network import Compute
from twophase.engine.packer import Format, formats_of
from twophase.kernels.operands import GROUP
from twophase.kernels.packing import BITS
from twophase.model import formats as storage_formats
from twophase.model.module_rules import read_names
from twophase.model.quantization import Storage
from twophase.model.spec import ModelSpec

KV_BITS: dict[KVFormat, int] = {"bf16": 16, "float32": 32, "int8": 8}
KV_SCALE_BITS = 32  # of each token and KV head, for int8


def deployment_of(spec: ModelSpec, compute: Compute, weights: Format | None, kv: KVFormat) -> Deployment:
    """Arithmetic is the compute type's, whatever weights and cache are kept in."""
    own = formats_of(compute, weights)
    head = read_names(["model.embed_tokens" if spec.tied_embeddings else "lm_head"], "the engine")
    plain = _stored(own.plain)
    storage = Storage(own.layers, plain, _stored(own.layers), rules=((head, _stored(own.head)),))
    scale = KV_SCALE_BITS / spec.layers[0].attention.head_dim if kv == "int8" else 0
    return Deployment(spec, storage, (KV_BITS[kv] + scale) / 8)


def share_left(spec: ModelSpec, compute: Compute, now: Format, then: Format) -> float:
    """Of the bytes that a pass of one token reads."""
    one = Pass((Span(0, 1, 0),))
    before, after = (
        price_of(deployment_of(spec, compute, each, "float32" if compute == "float32" else "bf16"))(one)[1]
        for each in (now, then)
    )
    return after / before


def _stored(format: Format) -> storage_formats.Format:
    return storage_formats.Format(
        name=format,
        bits=BITS[format],
        arithmetic="fp32" if format == "float32" else "bf16",
        group=GROUP.get(format, 0),
        scale_bits=16 if format in GROUP else 0,
    )
