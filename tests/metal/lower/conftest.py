"""Runs lowered programs on the simulator under its sanitizer."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from kernelwright.evaluator import Evaluation, Evaluator, EvaluatorConfig, Stage, Task
from kernelwright.ir import Dtype, Graph, TensorType
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.kernel import Program

Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Judge = Callable[[Task, Program], Evaluation]


@pytest.fixture(scope="session")
def run() -> Run:
    """Return what runs a program on arrays, and fails when the sanitizer reports anything."""
    device = open_device("simulator")

    def run(program: Program, graph: Graph, arrays: Sequence[Array]) -> tuple[Array, ...]:
        executable = device.compile(program.bind(graph.input_types), sanitize=True)
        result = executable.run(arrays, RunOptions(sanitize=True))
        assert result.reports == ()
        assert result.inputs_intact
        assert all(result.canaries_intact)
        return result.outputs

    return run


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """Return what judges a program; programs of one task share their worker and their cases.

    All kinds of data meet in the rows of a few cases, as where a shape is large. The stages
    behind coverage have tests of their own (tests/evaluator/attacks/test_honest.py).
    """
    config = EvaluatorConfig(
        secret="lowering", through=Stage.COVERAGE, case_elements=0, generic_shapes=2
    )
    with Evaluator(config=config) as evaluator:
        yield evaluator.evaluate


@pytest.fixture
def draw() -> Callable[[TensorType, int], Array]:
    """Return what draws an array of a type from a seed."""

    def draw(type_: TensorType, seed: int) -> Array:
        random = np.random.default_rng(seed)
        if type_.dtype is Dtype.BOOL:
            return random.random(type_.shape) < 0.7
        if type_.dtype.is_integer:
            return random.integers(0, 6, type_.shape).astype(type_.dtype.numpy)
        return np.asarray(random.standard_normal(type_.shape) * 2).astype(type_.dtype.numpy)

    return draw
