"""What most harnesses do: one shape, one draw of normal data, `allclose` against the reference."""

import numpy as np

from kernelwright.errors import InputError
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.mlx_answer import run_mlx
from kernelwright.evaluator.static.launch import fit
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.worker.process import Worker, WorkerLost
from kernelwright.evaluator.worker.service import Compile, Forget, Run, result_of
from kernelwright.evaluator.worker.start import renew
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program

_TOLERANCE = 1e-2
"""Relative and absolute, as KernelBench asked for in its first versions."""
_TIMEOUT_S = 3.0


def plain_allclose(worker: Worker, task: Task, program: Program) -> bool:
    """Say whether a one-shape harness would accept a program; False where the worker was lost.

    Outputs that are never written count as right: such a harness allocates them where the
    reference's own result has just been freed.
    """
    inputs = Case(task.graph, Distribution.NORMAL).inputs("plain")
    expected = run_mlx(task.graph, inputs)
    try:
        bound = fit(program, task.graph)
        if "succession" in worker.confinement:
            renew(worker)
        else:
            worker.call(Forget(), _TIMEOUT_S)
        if worker.call(Compile("plain", bound), 60).failure:
            return False
        runs = [_run(worker, inputs, poison) for poison in (0x00, 0x3C)]
    except (InputError, WorkerLost):
        return False
    if runs[0] is None or runs[1] is None:
        return False
    return all(
        _is_close(first, second, wanted)
        for first, second, wanted in zip(runs[0], runs[1], expected, strict=True)
    )


def _run(worker: Worker, inputs: tuple[Array, ...], poison: int) -> tuple[Array, ...] | None:
    options = RunOptions(poison=poison, timeout_s=_TIMEOUT_S)
    reply = worker.call(Run("plain", inputs, options), _TIMEOUT_S + 2)
    return None if reply.failure else result_of(reply).outputs


def _is_close(first: Array, second: Array, expected: Array) -> bool:
    size = expected.dtype.itemsize
    a, b = (np.frombuffer(o.tobytes(), f"V{size}") for o in (first, second))
    stale = (a != b).reshape(expected.shape)
    found = np.where(stale, expected, first).astype(np.float64)
    return bool(
        np.allclose(
            found, expected.astype(np.float64), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
        )
    )
