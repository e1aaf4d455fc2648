"""A wrong answer of a common kind comes with what to look at."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import evaluate
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.kernel import Kernel, Program, Tensor


def judged(value: str) -> Evaluation:
    """Judge a kernel for relu that gives a value to each element."""
    graph = canonicalize(capture(lambda x: mx.maximum(x, 0), mx.zeros((16, 100))))
    kernel = Kernel(
        name="relu",
        inputs=("x",),
        outputs=("y",),
        source=f"uint i = thread_position_in_grid.x;\ny[i] = {value};",
        grid=(1600, 1, 1),
        threadgroup=(64, 1, 1),
    )
    x, y = (Tensor(name=n, dtype=graph.input_types[0].dtype, shape=(16, 100)) for n in "xy")
    program = Program(inputs=(x,), outputs=(y,), kernels=(kernel,))
    config = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)
    return evaluate(Task(graph, "relu"), program, config=config)


@pytest.mark.parametrize("call", ["max(x[i], 0.0f)", "metal::fmax(x[i], 0.0f)"])
def test_what_drops_a_nan_is_named(call: str) -> None:
    found = judged(call)
    name = call.removeprefix("metal::").partition("(")[0]
    assert found.status is Status.WRONG
    assert found.summary.endswith(f"{name}() drops a NaN that MLX keeps: ask isnan() first.")


@pytest.mark.parametrize("value", ["x[i] > 0.0f ? x[i] : 0.0f", "max(x[i], 0.5f)"])
def test_what_is_wrong_otherwise_is_not_blamed_on_it(value: str) -> None:
    found = judged(value)
    assert found.status is Status.WRONG
    assert "drops a NaN" not in found.summary


def test_what_keeps_nan_is_right() -> None:
    assert judged("metal::isnan(x[i]) ? x[i] : max(x[i], 0.0f)").status is Status.CORRECT
