"""Times the plain programs of a chip's ceilings, as rows of the suite are timed."""

from collections.abc import Iterable

import mlx.core as mx
import numpy as np

from benchmarks.suite.ceiling_programs import (
    FUNCTION_TURNS,
    CeilingProgram,
    computing,
    copying,
    moving,
    reading_again,
    waiting,
)
from benchmarks.suite.ceilings import Ceilings, Point
from benchmarks.suite.measure import PLAN
from kernelwright.errors import DeviceError
from kernelwright.evaluator.speed.mlx_benchmark import MlxLaboratory
from kernelwright.evaluator.speed.timing import Order
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.execution import MlxExecutable

_MOVED_MIB = (1, 4, 8, 16, 32, 64, 128, 256, 512, 768)
_AGAIN_MIB = (1, 4, 16, 32, 48, 64, 96, 128, 192)
_LAUNCHES = 8
_THREADS = 1 << 20
_PAIRS = 6


def measure_ceilings(device: Device) -> Ceilings:
    """Time every program, and keep the least of several times each."""
    moved = []
    for mib in _MOVED_MIB:
        programs = list(moving((mib << 20) // 4))
        moved += [Point(nbytes=p.nbytes, time_us=_least_us([p], device)) for p in programs]
    again = []
    for mib in _AGAIN_MIB:
        elements = (mib << 20) // 4
        twice_us = _least_us(reading_again(elements), device)
        more_us = max(twice_us - _least_us([copying(elements)], device), 0.0)
        again.append(Point(nbytes=mib << 20, time_us=more_us))
    first_us, last_us = (_least_us([waiting(n)], device) for n in (1, _LAUNCHES))
    functions = 4 * _THREADS * FUNCTION_TURNS
    return Ceilings(
        chip=device.info.chip,
        moved=tuple(sorted(moved, key=lambda point: point.nbytes)),
        read_again=tuple(again),
        launch_us=(last_us - first_us) / (_LAUNCHES - 1),
        functions_per_us=functions / _least_us(computing(_THREADS), device),
    )


def _least_us(programs: Iterable[CeilingProgram], device: Device) -> float:
    """Return the least time that any of some programs took."""
    return min(_time_us(program, device) for program in programs)


def _time_us(program: CeilingProgram, device: Device) -> float:
    bound = program.program.bind([TensorType((program.elements_in,), Dtype.FLOAT32)])
    executable = device.compile(bound)
    if not isinstance(executable, MlxExecutable):
        raise DeviceError(f"the {device.info.name} device measures no time.")
    function = mx.compile(lambda *arrays: executable.graph(arrays))
    laboratory = MlxLaboratory(
        device=device,
        candidate=function,
        baselines={"itself": function},
        make_inputs=lambda slot: [mx.full((program.elements_in,), 0.5 + 0.01 * slot)],
        plan=PLAN,
        input_bytes=4 * program.elements_in,
        output_bytes=4 * program.elements_out,
    )
    (compared,) = laboratory.measure(Order(_PAIRS)).comparisons.values()
    mx.clear_cache()
    return float(np.min([*compared.candidate_ns, *compared.baseline_ns])) / 1e3
