"""A product's vector made by every threadgroup for itself, before it multiplies."""

import math
from collections.abc import Callable
from dataclasses import replace

from kernelwright.metal.family.prologue import Prologue
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.lower.program.side_by_side import block, reading_signature, take_shared
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.rowwise.kernel import lower_rowwise
from kernelwright.metal.lower.term.function import header_for
from kernelwright.metal.schedule import Rowwise
from kernelwright.metal.target.msl.spelling import MSL_TYPE

_NAME = "own_vector"
_VECTOR = 4
"""Elements that a thread takes at a time."""
_MOST_KEPT = 16
"""Elements that a thread keeps in registers from one pass to the next."""


def own_vector_bytes(prologue: Prologue, simdgroups: int) -> int:
    """Count the threadgroup memory of a vector, and of the sums that simdgroups leave."""
    return prologue.before.graph.types[prologue.value].nbytes + 8 * simdgroups


def behind_own_vector(
    prologue: Prologue, signature: Signature, write: Callable[[Signature], Kernel]
) -> Kernel:
    """Return a kernel that makes its products' vector and then does what `write` says.

    Args:
        prologue: how the graph is cut.
        signature: the names of the graph's arrays.
        write: writes the kernel of the products, of which no threadgroup ends early, given the
            names of their arrays.

    Raises:
        UnsupportedError: `write` refuses the products.
    """
    rest, before = prologue.rest, prologue.before
    type_ = before.graph.types[prologue.value]
    named = replace(
        signature,
        arrays={**signature.arrays, prologue.value: _NAME},
        spelled={**signature.spelled, _NAME: str(type_)},
        shared=frozenset({_NAME}),
    )
    kernel = write(reading_signature(named, rest))
    threads = math.prod(int(n) for n in kernel.threadgroup)
    own = replace(reading_signature(named, before), outputs=((_NAME, type_),))
    made = lower_rowwise(before.bare(), own, _schedule(threads, type_.size))
    # However a threadgroup is laid out, its threads are counted.
    text = made.source.replace("thread_position_in_threadgroup.x", "thread_index_in_threadgroup")
    declared, text = take_shared(text, "of_vector")
    shared, body = take_shared(kernel.source, "")
    source = "\n".join(
        [
            *shared,
            f"threadgroup {MSL_TYPE[type_.dtype]} {_NAME}[{type_.size}];",
            *declared,
            block(text),
            "// All of the vector is written before any of it is read.",
            "threadgroup_barrier(metal::mem_flags::mem_threadgroup);",
            body,
        ]
    )
    read = {*made.inputs, *kernel.inputs}
    return kernel.model_copy(
        update={
            "name": kernel_name(before.graph),
            "inputs": tuple(name for name, _ in signature.inputs if name in read),
            "source": source,
            "header": header_for(source),
        }
    )


def _schedule(threads: int, length: int) -> Rowwise:
    vector = _VECTOR if length % _VECTOR == 0 else 1
    return Rowwise(
        lanes=threads, rows=1, vector=vector, cached=length <= threads * _MOST_KEPT, online=False
    )
