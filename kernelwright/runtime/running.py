"""Compiled programs as functions of MLX's arrays, on any device."""

from collections.abc import Sequence

import mlx.core as mx

from kernelwright.ir.trace.stitch import RunRegion
from kernelwright.metal.device.array import to_mlx, to_numpy
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Executable
from kernelwright.metal.device.execution import MlxExecutable


def runner(executable: Executable) -> RunRegion:
    """Return what launches a program: lazily on a GPU, at once on the simulator.

    Raises:
        KernelwrightError: the program does not run on this GPU.
    """
    if isinstance(executable, MlxExecutable):
        executable.load()
        return executable.graph

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        result = executable.run([to_numpy(a) for a in arrays], RunOptions())
        return [to_mlx(a) for a in result.outputs]

    return run
