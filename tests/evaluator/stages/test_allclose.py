"""`mx.allclose` holds also where fast functions err by all that Apple documents."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import FastError
from kernelwright.metal.kernel import Kernel, Program, Tensor

_SIZE = 96


def _judge(name: str, spelled: str, fast_error: FastError = "worst") -> Evaluation:
    graph = canonicalize(capture(lambda x: getattr(mx, name)(x), mx.zeros((_SIZE,))))
    (type_,) = graph.input_types
    x = Tensor(name="x", dtype=type_.dtype, shape=type_.shape)
    kernel = Kernel(
        name="k",
        inputs=("x",),
        outputs=("y",),
        source=f"uint i = thread_position_in_grid.x; y[i] = {spelled};",
        grid=(_SIZE, 1, 1),
        threadgroup=(32, 1, 1),
    )
    outputs = (x.model_copy(update={"name": "y"}),)
    program = Program(inputs=(x,), outputs=outputs, kernels=(kernel,))
    config = EvaluatorConfig(secret="fast", through=Stage.ALLCLOSE, fast_error=fast_error)
    with Evaluator("simulator", config) as evaluator:
        return evaluator.evaluate(Task(graph, name), program)


def test_what_needs_a_precise_function_is_refused_with_a_fast_one() -> None:
    found = _judge("sin", "metal::fast::sin(x[i])")

    assert not found.is_correct
    assert found.stages[-1].stage is Stage.ALLCLOSE
    assert found.summary.startswith("with fast:: functions as far off as Apple documents")
    assert found.summary.endswith("Call metal::precise:: there.")


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        ("metal::fast::exp(x[i])", "hold with fast:: functions as far off as Apple documents"),
        ("metal::precise::exp(x[i])", "beside MLX's own answer"),
    ],
)
def test_the_stage_says_whether_fast_functions_were_tried(spelled: str, words: str) -> None:
    found = _judge("exp", spelled)

    assert found.is_correct, found.summary
    assert words in found.stages[-1].summary
    assert ("fast::" in found.stages[-1].summary) is ("fast" in spelled)


def test_the_worst_case_can_be_left_out() -> None:
    assert _judge("sin", "metal::fast::sin(x[i])", "usual").is_correct
