"""Names of a kernel's arrays: those that people gave, made safe for MSL and for MLX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Graph, TensorType, ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.kernel import Tensor

_WORDS = """
    alignas auto bool break case char class const constant constexpr continue decltype default
    delete device do double else enum explicit export extern false float for friend goto half if
    inline int kernel long namespace new operator private protected public register return short
    signed sizeof static struct switch template this thread threadgroup throw true try typedef
    typename uchar uint ulong union unsigned ushort using vertex fragment virtual void volatile
    while metal bfloat bfloat16_t float16_t vec array atomic in out NAN INFINITY
    abs all any ceil clamp cos erf exp exp2 fabs floor fma fmod isinf isnan log max min pow rint
    round rsqrt select sign sin sqrt tan tanh
    row column columns plane index start first i j k tile lane simdgroup step base offset outer
    run strip other
    larger smaller exceeds undercuts same load_run packed_eight sigmoid quick_sigmoid
    token digit_of packed_five wide_of wide_product float_of
    four_bit_float eight_bit_float power_of_two
    turn ranks_above ranks_below simd_smallest
    row_2 row_3 row_4 plane_2 plane_3 plane_4
    logaddexp floor_quotient floor_remainder floor_modulus integer_power
    sign_of log1p_of expm1_of erf_of erfinv_of simd_maximum simd_minimum
"""
RESERVED = frozenset(_WORDS.split())
"""Words that an array cannot be called: MSL's, and those that the kernels use themselves."""

# MLX looks for these after an input's name in the source and then changes the signature.
_TRAPS = re.compile(r"_(shape|strides|ndim)")


@dataclass(frozen=True)
class Signature:
    """The arrays of a kernel, in order, with their names."""

    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    arrays: dict[ValueId, str]
    """Input values by name."""
    spelled: dict[str, str]
    """Every array as people read it, such as `f16[rows,512]`."""

    @classmethod
    def of(cls, graph: Graph, reserved: frozenset[str] = RESERVED) -> "Signature":
        """Name the arrays of a graph, none of them like a `reserved` word."""
        names = _distinct([_safe(name, reserved) for name in graph.input_names()])
        count = len(graph.outputs)
        outputs = ["out"] if count == 1 else [f"out{i}" for i in range(count)]
        outputs = _distinct(outputs, taken=names)
        return cls(
            tuple(zip(names, graph.input_types, strict=True)),
            tuple(zip(outputs, graph.output_types, strict=True)),
            dict(zip(graph.inputs, names, strict=True)),
            dict(
                zip(
                    (*names, *outputs),
                    map(str, (*graph.input_types, *graph.output_types)),
                    strict=True,
                )
            ),
        )

    def spelling(self, tensors: Sequence[Tensor]) -> "Signature":
        """Return the signature with shapes as a program gives them."""
        spelled = {
            t.name: f"{t.dtype.short}[{','.join(map(str, t.shape))}]".replace(" ", "")
            for t in tensors
        }
        return replace(self, spelled=spelled)

    @property
    def scalars(self) -> frozenset[str]:
        """Inputs without dimensions."""
        return frozenset(name for name, type_ in self.inputs if not type_.shape)

    @property
    def taken(self) -> frozenset[str]:
        """Every name that a variable of the kernel cannot have."""
        return RESERVED | {name for name, _ in (*self.inputs, *self.outputs)}


def _safe(name: str, reserved: frozenset[str]) -> str:
    word = _TRAPS.sub(r"_of_\1", re.sub(r"\W", "_", name)) or "x"
    if word[0].isdigit() or word.startswith("__"):
        word = f"x{word}"
    return f"{word}_in" if word in reserved or word.startswith("out") else word


def _distinct(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    chosen: list[str] = []
    for name in names:
        number, free = 1, name
        while free in chosen or free in taken:
            number += 1
            free = f"{name}_{number}"
        chosen.append(free)
    return chosen


def kernel_name(graph: Graph) -> str:
    """Name a kernel after its operations."""
    ops = dict.fromkeys(node.op for node in graph.nodes if op_named(node.op).kind is not Kind.VIEW)
    return "_".join(ops)[:48].rstrip("_") or "copy"
