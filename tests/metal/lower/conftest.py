"""Runs lowered programs on the simulator and compares them with the float64 reference."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.ir import Graph, reference
from kernelwright.ir.dtype import Dtype
from kernelwright.metal.device.simulator import compile as compile_metal
from kernelwright.metal.kernel import BoundProgram, Program
from kernelwright.metal.render import render

Array = NDArray[np.generic]
Run = Callable[[Program, Graph, Sequence[Array]], list[Array]]


def _launch(bound: BoundProgram, arrays: dict[str, Array]) -> None:
    for launch in bound.launches:
        rendered = render(launch, bound)
        library = compile_metal(rendered.text, prelude="mlx")
        buffers: list[Array] = []
        for buffer in rendered.buffers:
            array = arrays[buffer.array]
            assert buffer.role == "data"
            buffers.append(array.reshape(-1) if array.shape else array.reshape(1))
        outcome = library.kernel(library.kernels[0]).launch(
            buffers,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            fresh=[i for i, b in enumerate(rendered.buffers) if b.array in launch.kernel.outputs],
            sanitize=True,
        )
        assert not outcome.reports, outcome.reports
