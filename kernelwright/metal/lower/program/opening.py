"""Kernels for any size of a dimension: written at two large primes, whose traces text shows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.resize import Axis, resize
from kernelwright.metal.kernel import Extent, Kernel, Program, Tensor
from kernelwright.metal.lower.program.signature import Signature

PRIMES = (1000003, 1000033)
"""Sizes at which no other size of a kernel could hide."""
_APART = 4096
"""How far a number of a kernel may be from a multiple of the size."""
_NUMBER = re.compile(r"(?P<before>[/%] )?(?<![\w.])(?P<digits>\d{6,})u?(?![\w.])")

Lowered = tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]
Write = Callable[[Graph, Signature], tuple[tuple[Kernel, ...], tuple[Tensor, ...]]]
"""Writes kernels, and names the arrays between them."""


@dataclass(frozen=True)
class Opening:
    """A dimension that kernels read from an array's shape: its name, and where inputs have it."""

    name: str
    axes: tuple[Axis, ...]

    def program(self, graph: Graph, write: Callable[[Graph], Lowered]) -> Program | None:
        """Return the program for any size, if kernels written at two sizes are the same text."""
        if not self.axes:
            return None
        try:
            one, other = (self._at(graph, write, prime) for prime in PRIMES)
        except (KernelwrightError, _EntangledError):
            return None
        return one if one == other else None

    def _at(self, graph: Graph, write: Callable[[Graph], Lowered], size: int) -> Program:
        resized = resize(graph, dict.fromkeys(self.axes, size))
        signature, kernels, temporaries = write(resized)
        named = tuple(self._named(k, signature, size) for k in kernels)
        return program_of(
            (signature, named, temporaries), lambda shape: [self._extent(n, size) for n in shape]
        )

    def _extent(self, number: int, size: int) -> Extent:
        times, rest = divmod(number, size)
        if rest or not times:
            return number
        return self.name if times == 1 else f"{self.name} * {times}"

    def _named(self, kernel: Kernel, signature: Signature, size: int) -> Kernel:
        """Return a kernel whose text reads the size instead of having it."""

        def replace(match: re.Match[str]) -> str:
            number = int(match["digits"])
            times = round(number / size)
            apart = number - times * size
            if times == 0:
                return match[0]
            before = match["before"] or ""
            if abs(apart) > _APART or (before and (times > 1 or apart)):
                raise _EntangledError
            text = self.name if times == 1 else f"{self.name} * {times}"
            return before + text + (f" {'+' if apart > 0 else '-'} {abs(apart)}" if apart else "")

        source = _NUMBER.sub(replace, kernel.source)
        if re.search(rf"\b{self.name}\b", re.sub(r"//.*", "", source)):
            read = [(signature.inputs[p][0], axis) for p, axis in self.axes]
            known = [(array, axis) for array, axis in read if array in kernel.inputs]
            if not known:
                raise _EntangledError
            array, axis = known[0]
            source = f"uint {self.name} = {array}_shape[{axis}];\n{source}"
        return kernel.model_copy(update={"source": source})


class _EntangledError(Exception):
    """A number of the text is made of the size in a way that text cannot say."""


def program_of(
    lowered: Lowered, extents: Callable[[Sequence[int]], Sequence[Extent]] = tuple
) -> Program:
    """Return the program of kernels, with shapes as `extents` writes them."""
    signature, kernels, temporaries = lowered
    inputs, outputs = (
        tuple(Tensor(name=n, dtype=t.dtype, shape=tuple(extents(t.shape))) for n, t in arrays)
        for arrays in (signature.inputs, signature.outputs)
    )
    return Program(inputs=inputs, outputs=outputs, temporaries=temporaries, kernels=kernels)


def fixed_program(graph: Graph, write: Write) -> Program:
    """Return the program of what `write` makes of a graph, for the graph's own sizes."""
    signature = Signature.of(graph)
    return program_of((signature, *write(graph, signature)))
