"""A segment whose kernels were found elsewhere: its first real call tries them."""

import threading

import mlx.core as mx

from kernelwright.ir.region import Region
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import Flat, have_values
from kernelwright.runtime.first_use import capturing
from kernelwright.runtime.server import KernelServer, Service


class FirstUse:
    """Answers as MLX does, and tries what is offered once, on the arrays of a real call."""

    def __init__(self, service: Service, server: KernelServer, run: Flat) -> None:
        """Answer by `run`, which serves what has passed already."""
        self._service = service
        self._server = server
        self._run = run
        self._is_tried = False
        self._lock = threading.Lock()

    def __call__(self, *arrays: mx.array) -> list[mx.array]:
        """Return the segment's results; arrays of a trace have no values to try with."""
        if not self._is_tried and have_values(arrays):
            with self._lock:
                if not self._is_tried:
                    self._is_tried = True
                    self._try(arrays)
        return self._run(*arrays)

    def _try(self, arrays: tuple[mx.array, ...]) -> None:
        seen: dict[Region, list[mx.array]] = {}
        noting = capturing(self._service.offers, seen)
        made = stitch(self._service.graph, {**self._service.replacements, **noting})(*arrays)
        mx.eval(made, list(seen.values()))
        for offer in self._service.offers:
            self._server.settle(offer, seen[offer.region])
