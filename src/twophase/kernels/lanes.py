"""Sixteen float32 lanes as a Numba type, so that kernels say in Python what each register does.

LLVM maps a value to one AVX-512 register, two of AVX2 or four of NEON. Arrays are float32 or bf16 (uint16
bits): loads widen, stores round to nearest even.
"""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from twophase.kernels.compiling import intrinsic

LANES = 16

FEATURES = dict(llvm.get_host_cpu_features())
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
F32S = ir.VectorType(F32, LANES)
I32S = ir.VectorType(I32, LANES)
I16S = ir.VectorType(I16, LANES)
POINTER = I8.as_pointer()
FIRST_LEVEL, SECOND_LEVEL = 3, 2  # of cache, as prefetches count them


class LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, F32S)


def constant(value: float) -> ir.Constant:
    return ir.Constant(F32S, [value] * LANES)


def integers(value: int) -> ir.Constant:
    return ir.Constant(I32S, [value] * LANES)


def broadcast(b: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    undefined = ir.Constant(vector, ir.Undefined)
    return b.shuffle_vector(b.insert_element(undefined, scalar, I32(0)), undefined, integers(0))


def prefetch_line(b: ir.IRBuilder, pointer: ir.Value, level: int) -> None:
    call(b, "llvm.prefetch.p0", pointer, I32(0), I32(level), I32(1), returns=ir.VoidType())


def call(b: ir.IRBuilder, name: str, *args: ir.Value, returns: ir.Type = F32S) -> ir.Value:
    """Call an LLVM intrinsic by its full name."""
    signature = ir.FunctionType(returns, [arg.type for arg in args])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), args)


def array_address(context: Any, b: ir.IRBuilder, typ: Any, array: ir.Value, at: ir.Value) -> ir.Value:
    data = b.bitcast(context.make_array(typ)(context, b, array).data, POINTER)
    return b.gep(data, [b.mul(at, I64(typ.dtype.bitwidth // 8))], source_etype=I8)


def widen(b: ir.IRBuilder, bf16: ir.Value) -> ir.Value:
    return b.bitcast(b.shl(b.zext(bf16, I32S), integers(16)), F32S)


def narrow(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Round to bf16, nearest even. Finite values only: rounding its bits can make a NaN an infinity."""
    bits = b.bitcast(value, I32S)
    odd = b.and_(b.lshr(bits, integers(16)), integers(1))
    return b.trunc(b.lshr(b.add(b.add(bits, integers(0x7FFF)), odd), integers(16)), I16S)


@intrinsic
def load(typingctx, array, at):  # type: ignore[no-untyped-def]
    """Lanes from array[at : at + 16]."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        address = array_address(context, b, array, *args)
        if array.dtype == types.uint16:
            return widen(b, b.load(address, typ=I16S, align=2))
        return b.load(address, typ=F32S, align=4)

    return lanes(array, types.intp), generate


@intrinsic
def store(typingctx, array, at, value):  # type: ignore[no-untyped-def]
    """array[at : at + 16] = lanes."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        address = array_address(context, b, array, args[0], args[1])
        if array.dtype == types.uint16:
            b.store(narrow(b, args[2]), b.bitcast(address, I16S.as_pointer()), align=2)
        else:
            b.store(args[2], b.bitcast(address, F32S.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def get(typingctx, array, at):  # type: ignore[no-untyped-def]
    """One element as float32."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        address = array_address(context, b, array, *args)
        if array.dtype == types.uint16:
            bits = b.shl(b.zext(b.load(address, typ=I16, align=2), I32), I32(16))
            return b.bitcast(bits, F32)
        return b.load(address, typ=F32, align=4)

    return types.float32(array, types.intp), generate


@intrinsic
def next_task(typingctx, counter):  # type: ignore[no-untyped-def]
    """counter[0]++, atomically: threads take tasks as they get to them, and none waits for a slow one."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        data = context.make_array(counter)(context, b, args[0]).data
        return b.atomic_rmw("add", data, I64(1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def splat(typingctx, scalar):  # type: ignore[no-untyped-def]
    return lanes(types.float32), lambda context, b, signature, args: broadcast(b, args[0], F32S)


def _binary(emit: Any) -> Any:
    @intrinsic
    def operation(typingctx, x, y):  # type: ignore[no-untyped-def]
        return lanes(lanes, lanes), lambda context, b, signature, args: emit(b, *args)

    return operation


add = _binary(lambda b, x, y: b.fadd(x, y))
sub = _binary(lambda b, x, y: b.fsub(x, y))
mul = _binary(lambda b, x, y: b.fmul(x, y))
div = _binary(lambda b, x, y: b.fdiv(x, y))
maximum = _binary(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))


@intrinsic
def fma(typingctx, x, y, z):  # type: ignore[no-untyped-def]
    """x * y + z, rounded once."""
    return lanes(lanes, lanes, lanes), lambda context, b, signature, args: call(b, "llvm.fma.v16f32", *args)


@intrinsic
def keep(typingctx, value, first, last, otherwise):  # type: ignore[no-untyped-def]
    """Lanes first..last (inclusive) of value, `otherwise` in the rest."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        value_, first_, last_, otherwise_ = args
        index = ir.Constant(I32S, list(range(LANES)))
        low = b.icmp_signed(">=", index, broadcast(b, b.trunc(first_, I32), I32S))
        high = b.icmp_signed("<=", index, broadcast(b, b.trunc(last_, I32), I32S))
        return b.select(b.and_(low, high), value_, otherwise_)

    return lanes(lanes, types.intp, types.intp, lanes), generate


def _reduce(b: ir.IRBuilder, value: ir.Value, combine: Any) -> ir.Value:
    """A fixed tree, halves against halves: the same sum on every machine."""
    width = LANES
    while width > 1:
        width //= 2
        moved = ir.Constant(I32S, [(i + width) % LANES for i in range(LANES)])
        value = combine(value, b.shuffle_vector(value, value, moved))
    return b.extract_element(value, I32(0))


@intrinsic
def total(typingctx, value):  # type: ignore[no-untyped-def]
    """Sum of the lanes."""
    return types.float32(lanes), lambda context, b, signature, args: _reduce(b, args[0], b.fadd)


@intrinsic
def largest(typingctx, value):  # type: ignore[no-untyped-def]
    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return _reduce(b, args[0], lambda x, y: b.select(b.fcmp_ordered(">", x, y), x, y))

    return types.float32(lanes), generate


# e^x = 2^n · e^r with |r| <= ln 2 / 2; coefficients of Cephes' expf (Moshier), within 2 ulp
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@intrinsic
def exp(typingctx, value):  # type: ignore[no-untyped-def]
    """e^x for x in -87..88, clamped outside."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        def multiply_add(x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
            return call(b, "llvm.fma.v16f32", x, y, z)

        x = args[0]
        x = b.select(b.fcmp_ordered("<", x, constant(-87.0)), constant(-87.0), x)
        x = b.select(b.fcmp_ordered(">", x, constant(88.0)), constant(88.0), x)
        n = call(b, "llvm.floor.v16f32", multiply_add(x, constant(1.44269504088896341), constant(0.5)))
        r = multiply_add(n, constant(-0.693359375), x)
        r = multiply_add(n, constant(2.12194440e-4), r)
        p = constant(_EXP[0])
        for coefficient in _EXP[1:]:
            p = multiply_add(p, r, constant(coefficient))
        p = b.fadd(multiply_add(p, b.fmul(r, r), r), constant(1.0))
        power = b.shl(b.add(b.fptosi(n, I32S), integers(127)), integers(23))
        return b.fmul(p, b.bitcast(power, F32S))

    return lanes(lanes), generate
