"""Names of arrays: what Metal and the kernels' own functions are called is nobody else's name."""

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.agents.roles.reply.task_signature import identifiers
from kernelwright.evaluator import Task
from kernelwright.evaluator.static import vocabulary
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.kernel import Tensor
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.library import FUNCTIONS
from kernelwright.metal.lower.program.signature import RESERVED, Signature, _safe
from tests.metal.lower.conftest import Judge


def test_no_array_has_a_name_that_the_evaluator_refuses() -> None:
    assert vocabulary.RESERVED <= RESERVED


def test_no_array_has_the_name_of_a_function_of_the_library() -> None:
    assert FUNCTIONS.keys() <= RESERVED


def _for_templates(name: str) -> str:
    return _safe(name, RESERVED)


def _for_models(name: str) -> str:
    return identifiers((name,))[0]


@pytest.mark.parametrize(
    "name",
    [
        *sorted(vocabulary.RESERVED | vocabulary.PUBLIC_MACROS),
        *("kw_", "KW_COUNT", "metal_x", "mlx_like", "__x", "_Up", "_", "größe", "2d", "ß"),
        *("x" * 65, "X" * 200, "x_shape" * 40),
    ],
)
@pytest.mark.parametrize("named", [_for_templates, _for_models])
def test_whatever_a_parameter_is_called_its_array_has_a_legal_name(
    name: str, named: Callable[[str], str]
) -> None:
    word = named(name)
    Tensor(name=word, dtype=Dtype.FLOAT32, shape=(1,))
    assert word.isidentifier()
    assert word.isascii()
    assert not vocabulary.is_internal(word)
    assert word not in vocabulary.RESERVED | vocabulary.PUBLIC_MACROS
    assert not word.startswith("_")


def test_names_that_would_become_equal_stay_apart() -> None:
    graph = ir.capture(_four, *[mx.zeros((2,))] * 4)
    long = "a" * 70
    names = (f"{long}_one", f"{long}_two", "ß", "é")
    named = replace(ir.canonicalize(graph), names=names)
    assert len({name for name, _ in Signature.of(named).inputs}) == len(names)
    assert len({*identifiers(names)}) == len(names)


def _four(a: mx.array, b: mx.array, c: mx.array, d: mx.array) -> mx.array:
    return a * b + c * d


def _blend(mix: mx.array, distance: mx.array) -> mx.array:
    return mix * mx.tanh(distance)


def _gate(quick_tanh: mx.array, length: mx.array) -> mx.array:
    return mx.softmax(mx.tanh(quick_tanh) * length, axis=-1)


@pytest.mark.parametrize("function", [_blend, _gate])
@pytest.mark.sampled(1)
def test_arguments_may_be_called_like_functions_of_metal(function: object, judge: Judge) -> None:
    assert callable(function)
    zeros = mx.zeros((8, 64), mx.float16)
    graph = ir.canonicalize(ir.capture(function, zeros, zeros))
    program = lower(graph, schedules(graph, open_device("simulator").info)[0])
    evaluation = judge(Task(graph, "names"), program)
    assert evaluation.is_correct, evaluation.summary
