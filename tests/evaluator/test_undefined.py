"""Floats beyond the integers that they become: nobody is blamed for what has no answer."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import evaluate
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.kernel import Kernel, Program, Tensor

SHAPE = (16, 100)


def to_bytes(x: mx.array) -> mx.array:
    return x.astype(mx.uint8)


def quantized(x: mx.array) -> mx.array:
    return mx.clip(mx.round(x * 20), -127, 127).astype(mx.int8)


def scaled(x: mx.array) -> mx.array:
    return (x * 1e6).astype(mx.int32) // 2


def judged(fn: Callable[[mx.array], mx.array], value: str) -> Evaluation:
    graph = canonicalize(capture(fn, mx.zeros(SHAPE)))
    kernel = Kernel(
        name="converted",
        inputs=("x",),
        outputs=("y",),
        source=f"uint i = thread_position_in_grid.x;\ny[i] = {value};",
        grid=(1600, 1, 1),
        threadgroup=(64, 1, 1),
    )
    x, y = (
        Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
        for name, type_ in zip("xy", (*graph.input_types, *graph.output_types), strict=True)
    )
    program = Program(inputs=(x,), outputs=(y,), kernels=(kernel,))
    config = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)
    return evaluate(Task(graph, fn.__name__), program, config=config)


@pytest.mark.parametrize(
    ("fn", "value"),
    [
        (to_bytes, "uchar(x[i])"),
        (to_bytes, "uchar(metal::clamp(x[i], 0.0f, 255.0f))"),
        (quantized, "char(metal::clamp(metal::rint(x[i] * 20), -127.0f, 127.0f))"),
        (scaled, "int(x[i] * 1e6f) >> 1"),
    ],
)
def test_what_a_conversion_leaves_open_is_nobodys_fault(
    fn: Callable[[mx.array], mx.array], value: str
) -> None:
    evaluation = judged(fn, value)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize(
    ("fn", "value"),
    [
        (to_bytes, "uchar(metal::rint(x[i]))"),
        (to_bytes, "uchar(metal::clamp(x[i], 0.0f, 127.0f))"),
        (quantized, "char(metal::clamp(metal::rint(x[i] * 20), -128.0f, 127.0f))"),
        (scaled, "int(x[i] * 1e6f) / 2"),
    ],
)
def test_what_it_defines_is_held_to(fn: Callable[[mx.array], mx.array], value: str) -> None:
    assert judged(fn, value).status is Status.WRONG
