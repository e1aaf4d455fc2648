"""Gradients by searched kernels where the store has some, by MLX where it has none."""

from collections.abc import Callable, Sequence

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import Flat, gradient_of, with_derivatives_of
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.runtime.state import Slot, holding

Note = Callable[[Graph | None, Service | None, str], None]
"""Hears what became of a gradient: its graph, what serves it, and why."""


class Backward:
    """The gradient of one call; it is traced, and looked up in the store, when first needed."""

    def __init__(
        self, original: Flat, slots: Sequence[Slot], server: KernelServer, note: Note
    ) -> None:
        self._original = original
        self._slots = slots
        self._server = server
        self._note = note
        self._run: Flat | None = None

    def __call__(self, primals: list[mx.array], cotangents: list[mx.array]) -> list[mx.array]:
        """Return the cotangents of the arguments."""
        if self._run is None:
            self._run = self._find(primals, cotangents)
        return self._run(*primals, *cotangents)

    def _find(self, primals: Sequence[mx.array], cotangents: Sequence[mx.array]) -> Flat:
        count = len(primals)
        derived = gradient_of(self._original)

        def gradient(*arrays: mx.array) -> list[mx.array]:
            return derived(list(arrays[:count]), list(arrays[count:]))

        # What goes wrong is said of it.
        gradient.__qualname__ = "the gradient"
        zeros = [mx.zeros(a.shape, a.dtype, stream=mx.cpu) for a in (*primals, *cotangents)]
        try:
            # What is at hand belongs to the gradient that MLX is tracing.
            with holding(self._slots, zeros[count - len(self._slots) : count]):
                graph = ir.canonicalize(ir.capture(gradient, *zeros))
        except KernelwrightError as e:
            self._note(None, None, str(e))
            return gradient
        service = self._server.serve(ir.gather_attention(graph))
        self._note(graph, service, service.reason)
        if not service.programs:
            return gradient
        kernels = stitch(service.graph, service.replacements)
        return with_derivatives_of(gradient, kernels, is_lazy=service.is_lazy)
