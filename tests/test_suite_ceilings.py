"""The plain programs behind a chip's ceilings move and compute what they are said to."""

from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.suite.ceiling_programs import (
    CeilingProgram,
    computing,
    copying,
    moving,
    reading_again,
    waiting,
)
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.cuda.translate import translate
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import BoundProgram

_SIZE = 1 << 13
Values = NDArray[np.float32]


def _bound(program: CeilingProgram) -> BoundProgram:
    return program.program.bind([TensorType((program.elements_in,), Dtype.FLOAT32)])


def _outputs(programs: Iterable[CeilingProgram]) -> list[tuple[Values, Values]]:
    found = []
    for program in programs:
        x = np.random.default_rng(0).uniform(0.5, 1, program.elements_in).astype(np.float32)
        run = SimulatorDevice().compile(_bound(program)).run([x], RunOptions())
        assert program.nbytes == x.nbytes + run.outputs[0].nbytes
        found.append((x, np.asarray(run.outputs[0], np.float32)))
    return found


def test_programs_move_an_array_once() -> None:
    copied, filled, summed, *mixtures = _outputs(moving(_SIZE))
    assert (copied[1] == copied[0]).all()
    assert (filled[1].reshape(-1, 4) == filled[0][:4]).all()
    assert summed[1].sum() == pytest.approx(summed[0].sum(), rel=1e-4)
    for (x, made), reads in zip(mixtures, (3, 7), strict=True):
        np.testing.assert_allclose(made, x.reshape(reads, -1).sum(axis=0), rtol=1e-5)


def test_programs_read_an_array_again_after_all_of_it() -> None:
    for x, made in _outputs(reading_again(_SIZE)):
        sums = x.reshape(16, -1).sum(axis=0)[:32]
        differences = np.sort((made - x).reshape(-1, 32), axis=1)
        np.testing.assert_allclose(differences, np.sort(sums)[None].repeat(256, 0), rtol=1e-4)


def test_launches_wait_for_each_other() -> None:
    ((x, made),) = _outputs([waiting(4)])
    assert (made[:4] == x[:4] + 4).all()


def test_functions_stay_finite() -> None:
    assert all(np.isfinite(made).all() for _, made in _outputs(computing(64)))


@pytest.mark.parametrize(
    "programs",
    [moving, lambda n: [copying(n)], reading_again, lambda n: [waiting(3)], computing],
    ids=["moving", "copying", "reading again", "waiting", "computing"],
)
def test_nvidia_gpus_can_be_measured_too(
    programs: Callable[[int], Iterable[CeilingProgram]],
) -> None:
    bounds = [_bound(program) for program in programs(_SIZE)]
    for bound, launch in chain.from_iterable([(b, one) for one in b.launches] for b in bounds):
        assert "kw_kernel" in translate(bound, launch).text
