"""A product's vector made by every threadgroup for itself, before it multiplies."""

from collections.abc import Callable
from dataclasses import replace

from kernelwright.metal.family.prologue import Prologue
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.lower.program.side_by_side import take_shared
from kernelwright.metal.lower.program.signature import Signature
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
    arrays = {**signature.arrays, prologue.value: _NAME}
    spelled = {**signature.spelled, _NAME: str(type_)}
    kernel = write(
        replace(
            signature,
            inputs=tuple((arrays[v], rest.graph.types[v]) for v in rest.inputs),
            arrays=dict(zip(rest.bare().inputs, (arrays[v] for v in rest.inputs), strict=True)),
            spelled=spelled,
            shared=frozenset({_NAME}),
        )
    )
    own = replace(
        signature,
        inputs=tuple((arrays[v], before.graph.types[v]) for v in before.inputs),
        outputs=((_NAME, type_),),
        arrays=dict(zip(before.bare().inputs, (arrays[v] for v in before.inputs), strict=True)),
        spelled=spelled,
        shared=frozenset({_NAME}),
    )
    x, y, z = kernel.threadgroup
    assert isinstance(x, int)
    assert isinstance(y, int)
    assert isinstance(z, int)
    made = lower_rowwise(before.bare(), own, _schedule(x * y * z, type_.size))
    # However a threadgroup is laid out, its threads are counted.
    text = made.source.replace("thread_position_in_threadgroup.x", "thread_index_in_threadgroup")
    declared, text = take_shared(text, "of_vector")
    shared, body = take_shared(kernel.source, "")
    inner = "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())
    source = "\n".join(
        [
            *shared,
            f"threadgroup {MSL_TYPE[type_.dtype]} {_NAME}[{type_.size}];",
            *declared,
            f"{{\n{inner}}}",
            "// All of the vector is written before any of it is read.",
            "threadgroup_barrier(metal::mem_flags::mem_threadgroup);",
            body,
        ]
    )
    read = dict.fromkeys((*made.inputs, *kernel.inputs))
    return kernel.model_copy(
        update={
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
