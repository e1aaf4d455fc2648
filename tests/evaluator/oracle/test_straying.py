"""Tasks whose indices leave their arrays: what hangs on none of those is judged all the same."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import evaluate
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program, Tensor

ROWS, COLUMNS = 12, 64


def shifted(x: mx.array, shift: mx.array) -> mx.array:
    """Move each row by a number of columns, zeros where nothing was."""
    place = mx.arange(COLUMNS) + mx.floor(shift * 8).astype(mx.int32)[:, None]
    inside = (place >= 0) & (place < COLUMNS)
    return mx.take_along_axis(x, place, axis=-1) * inside


SOURCE = """\
uint row = thread_position_in_grid.y, column = thread_position_in_grid.x;
int place = int(column) + int(floor(shift[row] * 8));
float value = x[int(row) * 64 + (place < 0 ? place + 64 : place)];
y[row * 64 + column] = VALUE;
"""


def judged(value: str) -> Evaluation:
    graph = canonicalize(capture(shifted, mx.zeros((ROWS, COLUMNS)), mx.zeros((ROWS,))))
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(ROWS, COLUMNS))
    shift = Tensor(name="shift", dtype=Dtype.FLOAT32, shape=(ROWS,))
    kernel = Kernel(
        name="shifted",
        inputs=("x", "shift"),
        outputs=("y",),
        source=SOURCE.replace("VALUE", value),
        grid=(COLUMNS, ROWS, 1),
        threadgroup=(COLUMNS, 1, 1),
    )
    y = x.model_copy(update={"name": "y"})
    program = Program(inputs=(x, shift), outputs=(y,), kernels=(kernel,))
    config = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)
    return evaluate(Task(graph, "shifted"), program, config=config)


@pytest.mark.parametrize(
    "value",
    ["place >= 0 && place < 64 ? value : 0", "value * float(place >= 0 && place < 64)"],
    ids=["chooses", "multiplies"],
)
def test_what_reads_outside_as_the_task_does_is_right(value: str) -> None:
    evaluation = judged(value)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize(
    "value",
    ["value", "place < 64 ? value : 0", "place >= 0 && place <= 64 ? value : 0"],
    ids=["nothing masked", "one side masked", "one too many"],
)
def test_a_wrong_mask_is_found(value: str) -> None:
    assert judged(value).status is Status.WRONG


def test_a_write_outside_stays_unsafe() -> None:
    masked = "place >= 0 && place < 64 ? value : 0;\ny[row * 64 + place + 4096] = value"
    assert judged(masked).status is Status.UNSAFE


def counted(x: mx.array, place: mx.array) -> mx.array:
    """Add one where indices say, which may lie anywhere."""
    return x.at[mx.floor(place * 50).astype(mx.int32)].add(1.0)


def test_a_task_that_writes_outside_of_its_arrays_harms_nobody() -> None:
    graph = canonicalize(capture(counted, mx.zeros((64,)), mx.zeros((16,))))
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(64,))
    place = Tensor(name="place", dtype=Dtype.FLOAT32, shape=(16,))
    kernel = Kernel(
        name="zeros",
        inputs=("x", "place"),
        outputs=("y",),
        source="y[thread_position_in_grid.x] = 0;",
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
    )
    y = x.model_copy(update={"name": "y"})
    program = Program(inputs=(x, place), outputs=(y,), kernels=(kernel,))
    config = EvaluatorConfig(secret="s", through=Stage.DETERMINISM)
    assert evaluate(Task(graph, "counted"), program, config=config).status is Status.WRONG
