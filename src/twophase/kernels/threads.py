"""Work shared out to the threads of Numba's pool.

Numba's own prange makes the same call, but of a copy of the loop's body that it links, optimises and
translates three times over: half of the time that all kernels take to compile.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils

from twophase.kernels.compiling import intrinsic
from twophase.kernels.lanes import I64, POINTER

SHARED_OUT = 1 << 15  # elements from which threads pay: less is done sooner than they are woken
POOL_LOOP = ir.FunctionType(ir.VoidType(), [POINTER] * 5 + [I64] * 3)
POOL_BODY = ir.FunctionType(
    ir.VoidType(), [POINTER.as_pointer(), I64.as_pointer(), I64.as_pointer(), POINTER]
)

numba.get_num_threads()  # starts the pool, whose loop compiled kernels then find


@intrinsic
def share_out(typingctx, worker, count, threads, arguments):  # type: ignore[no-untyped-def]
    """worker(first, last, *arguments) on each thread, with its share of range(count); waits for all.

    worker: a kernel that returns nothing. On the calling thread alone where `threads` is 1. RuntimeError
    where it raised on any.
    """
    kinds = (types.intp, types.intp, *map(types.unliteral, arguments.types))
    typingctx.resolve_function_type(worker, kinds, {})
    compiled = worker.dispatcher.overloads[kinds]

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        _, count_, threads_, arguments_ = args
        failed = cgutils.alloca_once(b, I64)
        b.store(I64(0), failed)
        values = [failed, threads_, count_, *cgutils.unpack_tuple(b, arguments_, len(arguments.types))]
        shared = cgutils.alloca_once(b, ir.LiteralStructType([value.type for value in values]))
        for index, value in enumerate(values):
            b.store(value, cgutils.gep_inbounds(b, shared, 0, index))
        context.add_linking_libs([compiled.library])
        body = _body(context, b.module, compiled, shared.type)

        bodies, steps = (cgutils.alloca_once(b, I64) for _ in range(2))
        first = cgutils.alloca_once(b, POINTER)  # the pool moves it by a step for each body: its number
        b.store(threads_, bodies)
        b.store(I64(1), steps)
        b.store(cgutils.get_null_value(POINTER), first)
        data = b.bitcast(shared, POINTER)
        with b.if_else(b.icmp_signed(">", threads_, I64(1))) as (many, one):
            with many:
                loop = cgutils.get_or_insert_function(b.module, POOL_LOOP, "numba_parallel_for")
                own = [b.bitcast(each, POINTER) for each in (body, first, bodies, steps)]
                b.call(loop, [*own, data, I64(0), I64(1), threads_])
            with one:
                b.store(I64(1), bodies)
                b.call(body, [first, bodies, steps, data])
        with cgutils.if_unlikely(b, b.icmp_signed("!=", b.load(failed), I64(0))):
            context.call_conv.return_user_exc(b, RuntimeError, ("a thread of a kernel failed",))
        return context.get_dummy_value()

    return types.void(worker, types.intp, types.intp, arguments), generate


def _body(context: Any, module: ir.Module, compiled: Any, shared_type: ir.Type) -> ir.Function:
    """What the pool calls: for the bodies from a number on, `dimensions[0]` of them, their shares."""
    name = module.get_unique_name(f"twophase_share_of_{compiled.fndesc.unique_name}")
    function = ir.Function(module, POOL_BODY, name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    firsts, bodies, _, data = function.args
    shared = b.bitcast(data, shared_type)
    values = [b.load(cgutils.gep_inbounds(b, shared, 0, i)) for i in range(len(shared_type.pointee.elements))]
    failed, threads, count, *arguments = values
    number = b.ptrtoint(b.load(firsts), I64)
    worker = context.declare_function(module, compiled.fndesc)
    with cgutils.for_range(b, b.load(bodies), intp=I64) as loop:
        thread = b.add(number, loop.index)
        first = b.sdiv(b.mul(count, thread), threads)
        last = b.sdiv(b.mul(count, b.add(thread, I64(1))), threads)
        status, _ = context.call_conv.call_function(
            b, worker, compiled.fndesc.restype, compiled.fndesc.argtypes, [first, last, *arguments]
        )
        with cgutils.if_unlikely(b, status.is_error):
            b.store(I64(1), failed)
    b.ret_void()
    return function
