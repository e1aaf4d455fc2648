"""What waves, poles, jumps and equalities do between the ends of what an operand may be."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import calibrate, judge
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture

Floats = NDArray[np.float32]
Function = Callable[..., mx.array]
SIZES = 10.0 ** np.arange(-3, 10)


def operands(seed: int) -> tuple[Floats, Floats]:
    random = np.random.default_rng(seed)
    scale = random.choice(SIZES, (2, 4096))
    x, y = random.standard_normal((2, 4096)) * scale
    return x.astype(np.float32), y.astype(np.float32)


def passes(function: Function, inputs: tuple[Floats, ...], found: Floats) -> bool:
    graph = canonicalize(capture(function, *(mx.zeros(i.shape) for i in inputs)))
    task = Task(graph, "task")
    case = Case(graph, Distribution.NORMAL)
    reference = calibrate(case, inputs, task.output_tolerances)
    return judge(reference, [found])[0].is_acceptable


def wide(values: Floats) -> NDArray[np.float64]:
    return values.astype(np.float64)


ROUNDED: dict[str, tuple[Function, Callable[[Floats, Floats], NDArray[np.float64]]]] = {
    "cosine of a product": (lambda x, y: mx.cos(x * y), lambda x, y: np.cos(wide(x * y))),
    "sine of a sum": (lambda x, y: mx.sin(x + y), lambda x, y: np.sin(wide(x + y))),
    "remainder of a product": (
        lambda x, y: mx.remainder(x * y, 7.0),
        lambda x, y: np.remainder(wide(x * y), 7.0),
    ),
    "division by a difference": (
        lambda x, y: x / (x * y - y * x * 0.5),
        lambda x, y: wide(x) / wide(x * y - y * x * np.float32(0.5)),
    ),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("seed", range(3))
def test_float32_arguments_pass(name: str, seed: int) -> None:
    function, right = ROUNDED[name]
    x, y = operands(seed)
    with np.errstate(all="ignore"):
        found = right(x, y).astype(np.float32)
    assert passes(function, (x, y), found)


@pytest.mark.parametrize("name", ROUNDED)
def test_exact_arguments_leave_no_room(name: str) -> None:
    """Where the rounding before moves little, a result that is a little off is refused."""
    function, right = ROUNDED[name]
    random = np.random.default_rng(0)
    x, y = random.uniform(1, 2, (2, 4096)).astype(np.float32)
    found = right(x, y).astype(np.float32)
    assert passes(function, (x, y), found)
    found[17] *= np.float32(1.0001)
    assert not passes(function, (x, y), found)


def test_equality_of_rounded_values_may_hold_or_not() -> None:
    x, y = operands(0)
    found = (x * y == y * x * np.float32(1.0)).astype(np.float32)
    assert passes(lambda a, b: (a * b == b * a * 1.0).astype(mx.float32), (x, y), found)


def test_whole_numbers_as_angles() -> None:
    ids = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 4096, dtype=np.int32)
    graph = canonicalize(capture(lambda i: mx.cos(i.astype(mx.float32)), mx.zeros(4096, mx.int32)))
    case = Case(graph, Distribution.NORMAL)
    reference = calibrate(case, (ids,), Task(graph, "task").output_tolerances)
    found = np.cos(ids.astype(np.float32).astype(np.float64)).astype(np.float32)
    assert judge(reference, [found])[0].is_acceptable
    found[5] = 4.0
    assert not judge(reference, [found])[0].is_acceptable


def test_a_difference_that_may_be_zero_over_zero_is_anything() -> None:
    x = np.arange(4096, dtype=np.float32)
    zero = np.zeros(4096, np.float32)
    scaled = x * np.float32(1 / 255)
    with np.errstate(all="ignore"):
        found = ((scaled - scaled) / zero).astype(np.float32)
    assert passes(lambda a, m, s: (a / 255.0 - m) / s, (x, scaled, zero), found)
