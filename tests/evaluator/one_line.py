"""Kernels of one line: each thread computes one element of `y` from `x`."""

from collections.abc import Callable

import mlx.core as mx

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import evaluate
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.kernel import Kernel, Program, Tensor

_SHAPE = (16, 100)
_CONFIG = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)


def judge_line(fn: Callable[[mx.array], mx.array], value: str) -> Evaluation:
    """Judge a kernel for `fn` that gives `value`, written with `x[i]`, to each element."""
    graph = canonicalize(capture(fn, mx.zeros(_SHAPE)))
    kernel = Kernel(
        name="mapped",
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
    return evaluate(Task(graph, "mapped"), program, config=_CONFIG)
