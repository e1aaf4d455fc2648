"""Runs programs in a worker, with nothing of the evaluator's stages around them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from kernelwright.errors import DeviceError, InputError
from kernelwright.evaluator.static.launch import fit
from kernelwright.evaluator.static.normal_form import normalise
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.evaluator.worker.service import Compile, Forget, Run, result_of
from kernelwright.evaluator.worker.start import open_worker
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program

_MEMORY_BYTES = 8 << 30
_TIMEOUT_S, _COMPILE_TIMEOUT_S, _SLACK_S = 20.0, 60.0, 10.0


@dataclass
class Runner:
    """One worker on the simulator; a fresh one after a program has taken it down."""

    _worker: Worker | None = None
    _ready: set[str] = field(default_factory=set)

    def outputs(
        self, program: Program, graph: Graph, inputs: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Return what a program gives; None where it does not run to its end."""
        try:
            key = self._compiled(program, graph)
            options = RunOptions(order_seed=1, timeout_s=_TIMEOUT_S)
            reply = self._open().call(Run(key, tuple(inputs), options), _TIMEOUT_S + _SLACK_S)
            return None if reply.failure else result_of(reply).outputs
        except (WorkerLost, InputError, ValidationError, LookupError):
            self.close()
            return None

    def _compiled(self, program: Program, graph: Graph) -> str:
        key = f"{program.id}|{graph.fingerprint}"
        if key in self._ready:
            return key
        bound = fit(normalise(program), graph)
        if self._open().call(Compile(key, bound), _COMPILE_TIMEOUT_S).failure:
            raise LookupError(key)
        self._ready.add(key)
        return key

    def _open(self) -> Worker:
        if self._worker is None or not self._worker.is_alive:
            self._ready.clear()
            self._worker, _ = open_worker("simulator", _MEMORY_BYTES)
        return self._worker

    def forget(self) -> None:
        """Drop what is compiled."""
        self._ready.clear()
        if self._worker is not None and self._worker.is_alive:
            try:
                self._worker.call(Forget(), _COMPILE_TIMEOUT_S)
            except (WorkerLost, DeviceError):
                self.close()

    def close(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
