"""Kernels for any size of a dimension: written of a graph in which it is open."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.ir.passes.resize import Axis, resize
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.metal.lower.program.signature import Signature

_LARGE_PRIMES = {"keys": 1000003, "tokens": 1000033}
"""What decisions see of an open dimension: more than any limit, and a multiple of nothing."""
_APART = 4096
"""How near to a multiple of the size a number of a kernel would have to come from it."""
_WRITTEN = re.compile(r"(?P<before>[-*/%] )?@(?P<text>[^@]*)@u?l?(?P<after> [*/%])?")
_NUMBER = re.compile(r"(?<![\w.])\d{6,}(?=u?l?(?![\w.]))")

Lowered = tuple[Signature, tuple[Kernel, ...], tuple[Tensor, ...]]
Write = Callable[[Graph, Signature], tuple[tuple[Kernel, ...], tuple[Tensor, ...]]]
"""Writes kernels, and names the arrays between them."""


def open_size(name: str) -> OpenSize:
    """Return any size of a dimension of a name."""
    return OpenSize.named(name, _LARGE_PRIMES[name])


@dataclass(frozen=True)
class Opening:
    """A dimension that kernels read from an array's shape: its name, and where inputs have it."""

    name: str
    axes: tuple[Axis, ...]

    def program(self, graph: Graph, write: Callable[[Graph], Lowered]) -> Program | None:
        """Return the program for any size; None where a kernel needs more than sums of it."""
        if not self.axes:
            return None
        try:
            resized = resize(graph, dict.fromkeys(self.axes, open_size(self.name)))
            signature, kernels, temporaries = write(resized)
            named = tuple(self._named(k, signature) for k in kernels)
        except KernelwrightError:
            return None
        return program_of((signature, named, temporaries))

    def _named(self, kernel: Kernel, signature: Signature) -> Kernel:
        """Return a kernel whose text reads the size from the shape of an array."""
        if any(self._is_left_over(int(number)) for number in _NUMBER.findall(kernel.source)):
            raise UnsupportedError(f"a number of the kernel follows from {self.name}.")
        source = _WRITTEN.sub(_without_marks, kernel.source)
        if re.search(rf"\b{self.name}\b", re.sub(r"//.*", "", source)):
            read = [(signature.inputs[p][0], axis) for p, axis in self.axes]
            known = [(array, axis) for array, axis in read if array in kernel.inputs]
            if not known:
                raise UnsupportedError(f"no array of the kernel has {self.name} in its shape.")
            array, axis = known[0]
            source = f"uint {self.name} = {array}_shape[{axis}];\n{source}"
        return kernel.model_copy(update={"source": source})

    def _is_left_over(self, number: int) -> bool:
        prime = _LARGE_PRIMES[self.name]
        times = round(number / prime)
        return times > 0 and abs(number - times * prime) <= _APART


def _without_marks(written: re.Match[str]) -> str:
    """Return the text of an open size, in parentheses where what stands beside it binds tighter."""
    before, text, after = (written[name] or "" for name in ("before", "text", "after"))
    is_sum = " + " in text or " - " in text
    is_bound = (is_sum and (before or after)) or (" * " in text and before[:1] in ("/", "%"))
    return f"{before}({text}){after}" if is_bound else f"{before}{text}{after}"


def program_of(lowered: Lowered) -> Program:
    """Return the program of kernels, with open sizes by name."""
    signature, kernels, temporaries = lowered
    inputs, outputs = (
        tuple(Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in arrays)
        for arrays in (signature.inputs, signature.outputs)
    )
    return Program(inputs=inputs, outputs=outputs, temporaries=temporaries, kernels=kernels)


def fixed_program(graph: Graph, write: Write) -> Program:
    """Return the program of what `write` makes of a graph, for the graph's own sizes."""
    signature = Signature.of(graph)
    return program_of((signature, *write(graph, signature)))
