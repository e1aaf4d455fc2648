"""Numbers that a kernel's text holds for a reason: its task's own, and those of any arithmetic."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from kernelwright.evaluator.coverage.sides import Seen
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program

_OF_ANY_KERNEL = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_ENDS_OF_FORMATS = (65504.0, 3.3895314e38, 3.4028235e38)
"""The largest halves, bfloats and floats."""
_OF_MATHEMATICS = (
    *(math.e, math.pi, math.log(2), math.log(10), math.sqrt(2), math.sqrt(math.pi)),
    *(math.sqrt(2 / math.pi), 2 * math.log2(math.e), 0.044715),
)
_EXPONENTS = (
    *((87.0, 89.0), (102.0, 104.0), (11.0, 12.0), (16.0, 18.0)),
    *((126.0, 128.0), (148.0, 150.0), (14.0, 16.0), (24.0, 25.0)),
)
"""Sizes of arguments at which `exp` and `exp2` leave float and half at either end, or flush."""
_LARGEST_COUNT = 32
_ROUNDED = 1e-3
"""Relative; a constant may be rounded to bfloat16."""
_MOST_CONSTANTS = 256
_EPSILON = 1e-6
"""Up to here a number keeps others from zero; rows of zeros go below."""
_ONE_BIT, _FAR = 0.5, 60
"""What `math.frexp` gives for powers of two so far from one that they keep others from overflow."""


@dataclass(frozen=True)
class Explained:
    """Numbers that a task, its sizes or its launch explain."""

    floats: frozenset[float]
    sizes: frozenset[int]
    float_arrays: frozenset[str] = frozenset()
    """Arrays whose elements are bits of floats where they are taken for integers."""

    @classmethod
    def of(cls, graph: Graph, program: Program) -> Self:
        """Take them from a task and from what is launched for it."""
        found = [*_OF_ANY_KERNEL, *_ENDS_OF_FORMATS, *_OF_MATHEMATICS]
        for constant in graph.constant_of.values():
            array = np.asarray(constant.array).reshape(-1)
            if array.dtype.kind in "fiub" and array.size <= _MOST_CONSTANTS:
                found += [float(n) for n in array if np.isfinite(n)]
        sizes = {
            size for type_ in (*graph.input_types, *graph.output_types) for size in type_.shape
        }
        for kernel in program.kernels:
            threads = (*kernel.grid, *kernel.threadgroup)
            sizes |= {size for size in threads if isinstance(size, int)}
            sizes |= {value for value in kernel.template.values() if isinstance(value, int)}
        derived = (n for one in found for n in (one, -one, _inverse(one)))
        arrays = (*program.inputs, *program.temporaries, *program.outputs)
        return cls(
            frozenset((*derived, *map(float, sizes))),
            frozenset(sizes),
            frozenset(array.name for array in arrays if array.dtype.is_float),
        )

    def reads_bits(self, seen: Seen) -> bool:
        """Say whether a condition hangs on the bits of floats."""
        return seen.reads_bits or not self.float_arrays.isdisjoint(seen.as_integers)

    def has(self, number: float, kind: str) -> bool:
        """Say whether a number of a comparison of one kind, such as `fcmp olt`, is explained."""
        if kind.startswith("icmp") and number.is_integer() and self._counts(int(number)):
            return True
        if 0 < abs(number) <= _EPSILON:
            return True
        if any(low <= abs(number) <= high for low, high in _EXPONENTS):
            return True
        if abs(math.frexp(number)[0]) == _ONE_BIT and abs(math.frexp(number)[1]) >= _FAR:
            return True
        return any(math.isclose(number, known, rel_tol=_ROUNDED) for known in self.floats)

    def _counts(self, number: int) -> bool:
        """Say whether an integer is a count, a mask, a limit of a type, or next to a size."""
        size = abs(number)
        if size <= _LARGEST_COUNT or size & (size - 1) == 0 or size & (size + 1) == 0:
            return True
        return any(near in self.sizes for near in (size - 1, size, size + 1))


def _inverse(number: float) -> float:
    return 1 / number if number else 0.0
