"""Names of arrays: what Metal and the kernels' own functions are called is nobody else's name."""

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.evaluator import Task
from kernelwright.evaluator.static import vocabulary
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.library import FUNCTIONS
from kernelwright.metal.lower.program.signature import RESERVED, _safe
from tests.metal.lower.conftest import Judge


def test_no_array_has_a_name_that_the_evaluator_refuses() -> None:
    assert vocabulary.RESERVED <= RESERVED


def test_no_array_has_the_name_of_a_function_of_the_library() -> None:
    assert FUNCTIONS.keys() <= RESERVED


@pytest.mark.parametrize(
    "name",
    [
        *sorted(vocabulary.RESERVED | vocabulary.PUBLIC_MACROS),
        *("kw_", "KW_COUNT", "metal_x", "mlx_like", "__x", "_Up", "_", "größe", "2d"),
    ],
)
def test_whatever_a_parameter_is_called_its_array_has_a_legal_name(name: str) -> None:
    word = _safe(name, RESERVED)
    assert word.isidentifier()
    assert word.isascii()
    assert not vocabulary.is_internal(word)
    assert word not in vocabulary.RESERVED | vocabulary.PUBLIC_MACROS
    assert not word.startswith(("metal", "_"))


def _blend(mix: mx.array, distance: mx.array) -> mx.array:
    return mix * mx.tanh(distance)


def _gate(quick_tanh: mx.array, length: mx.array) -> mx.array:
    return mx.softmax(mx.tanh(quick_tanh) * length, axis=-1)


@pytest.mark.parametrize("function", [_blend, _gate])
def test_arguments_may_be_called_like_functions_of_metal(function: object, judge: Judge) -> None:
    assert callable(function)
    zeros = mx.zeros((8, 64), mx.float16)
    graph = ir.canonicalize(ir.capture(function, zeros, zeros))
    program = lower(graph, schedules(graph, open_device("simulator").info)[0])
    evaluation = judge(Task(graph, "names"), program)
    assert evaluation.is_correct, evaluation.summary
