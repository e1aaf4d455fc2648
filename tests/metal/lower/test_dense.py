"""Few rows times a matrix as one kernel: every layout, prologue and epilogue."""

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, TensorType, canonicalize, capture, reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Function = Callable[..., mx.array | tuple[mx.array, ...]]
# The same cases every time: a test says what changed, not what was drawn.
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def linear(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    y = x @ w.T + b
    return y * mx.sigmoid(y)


def gated(x: mx.array, gate: mx.array, up: mx.array) -> mx.array:
    y = x @ gate.T
    return y * mx.sigmoid(y) * (x @ up.T)


def packed_gate(x: mx.array, w: mx.array) -> mx.array:
    gate, up = mx.split(x @ w, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


def residual(x: mx.array, w: mx.array, h: mx.array) -> tuple[mx.array, mx.array]:
    y = (x * 0.5) @ w
    return h + y, mx.tanh(y)


def experts(x: mx.array, gate: mx.array, up: mx.array, chosen: mx.array) -> mx.array:
    """The gated products of each token's chosen experts, as mlx-lm writes them."""
    x = mx.expand_dims(x, (-2, -3))
    y = mx.gather_mm(x, gate.swapaxes(-1, -2), rhs_indices=chosen)
    return y * mx.sigmoid(y) * mx.gather_mm(x, up.swapaxes(-1, -2), rhs_indices=chosen)


def joined_experts(x: mx.array, down: mx.array, chosen: mx.array, h: mx.array) -> mx.array:
    return mx.gather_mm(x, down, rhs_indices=chosen).squeeze(-2) + h


CASES: dict[str, tuple[Function, list[str], str]] = {
    "bias and activation": (linear, ["f16[1,256]", "f16[64,256]", "f16[64]"], ""),
    "several rows": (linear, ["bf16[3,128]", "bf16[32,128]", "bf16[32]"], "columns=2, strips=2"),
    "odd sizes": (
        linear,
        ["f32[2,77]", "f32[33,77]", "f32[33]"],
        "columns=1, teams=3, vector=1",
    ),
    "two products": (gated, ["f16[2,1,192]", "f16[64,192]", "f16[64,192]"], "strips=2, teams=2"),
    "halves of one product": (
        packed_gate,
        ["f32[1,64]", "f32[64,144]"],
        "columns=1, strips=4, teams=1, vector=2",
    ),
    "two results": (
        residual,
        ["f16[4,96]", "f16[96,80]", "f16[4,80]"],
        "columns=1, strips=8, teams=1",
    ),
    "one strip": (residual, ["f32[1,9]", "f32[9,40]", "f32[1,40]"], "columns=1, vector=1"),
    "terms ahead": (
        residual,
        ["f16[4,96]", "f16[96,80]", "f16[4,80]"],
        "columns=1, strips=3, teams=1, vector=8, terms=4",
    ),
    "terms ahead, one by one": (
        packed_gate,
        ["bf16[3,40]", "bf16[40,66]"],
        "columns=1, strips=2, teams=1, vector=1, terms=2",
    ),
    "chunks of two products": (
        lambda x, gate, up: mx.maximum(x @ gate, 0) * (x @ up),
        ["f16[2,1,64]", "f16[64,48]", "f16[64,48]"],
        "columns=1, strips=2, teams=2, vector=2, terms=4, chunks=3",
    ),
    "chunks of bytes": (
        lambda x, w, s: mx.tanh(x @ (w.astype(x.dtype) * s)),
        ["f16[5,72]", "i8[72,40]", "f16[72,1]"],
        "columns=1, strips=1, teams=1, vector=4, terms=8, chunks=4",
    ),
    "chunks of a batch": (
        lambda q, v: (q @ v) * 0.125,
        ["f32[2,3,2,60]", "f32[2,3,60,20]"],
        "columns=1, strips=2, teams=1, vector=4, terms=2, chunks=7",
    ),
    "terms side by side": (
        residual,
        ["f16[4,192]", "f16[192,88]", "f16[4,88]"],
        "columns=1, strips=2, teams=2, vector=4, terms=4, lanes=8",
    ),
    "chunks side by side": (
        packed_gate,
        ["bf16[3,80]", "bf16[80,66]"],
        "columns=1, strips=3, teams=1, vector=1, terms=1, chunks=2, lanes=16",
    ),
    "chunks along": (
        linear,
        ["f32[2,770]", "f32[33,770]", "f32[33]"],
        "columns=1, strips=2, teams=3, vector=2, chunks=4",
    ),
    "a batch of matrices": (
        lambda q, k: (q @ k.swapaxes(-1, -2)) * 0.125,
        ["f32[2,3,1,64]", "f32[2,3,16,64]"],
        "columns=2, vector=2",
    ),
    "addmm": (
        lambda x, w, b: mx.tanh(mx.addmm(b, x, w.T, alpha=0.5, beta=2.0)),
        ["f16[1,128]", "f16[16,128]", "f16[16]"],
        "columns=2",
    ),
    "bytes": (
        lambda x, w, s: x @ (w.astype(x.dtype) * s).T,
        ["f16[1,128]", "i8[16,128]", "f16[16,1]"],
        "columns=2",
    ),
    "chosen experts": (
        experts,
        ["f16[3,1,128]", "f16[6,32,128]", "f16[6,32,128]", "u32[3,1,2]"],
        "columns=2, strips=2, teams=2, vector=4",
    ),
    "chunks of chosen experts": (
        joined_experts,
        ["bf16[2,4,1,96]", "bf16[7,96,40]", "i32[2,4]", "bf16[2,4,40]"],
        "columns=1, strips=2, teams=1, vector=8, terms=2, chunks=3, lanes=16",
    ),
    "chosen rows and matrices": (
        lambda x, w, i, j: mx.tanh(mx.gather_mm(x, w, i, j)),
        ["f32[6,3,20]", "f32[2,3,20,12]", "u32[2,5]", "u32[2,5]"],
        "columns=1, vector=1",
    ),
    "heads": (
        lambda x, w: (x @ w.T).reshape(2, 1, 4, 8).transpose(0, 2, 1, 3) * 2,
        ["f32[2,1,64]", "f32[32,64]"],
        "columns=4, vector=2",
    ),
}


def graph_of(function: Function, types: Sequence[str]) -> Graph:
    parsed = map(TensorType.parse, types)
    zeros = [mx.zeros(t.shape, getattr(mx, t.dtype.value)) for t in parsed]
    return canonicalize(capture(function, *zeros))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(8)
def test_products_are_computed_as_written(name: str, run: Run, draw: Draw) -> None:
    function, types, decisions = CASES[name]
    graph = graph_of(function, types)
    assert classify(graph).pattern is Pattern.DENSE
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    found = run(lower(graph, parse(f"dense({decisions})")), graph, arrays)
    for output, exact in zip(found, reference(graph, arrays), strict=True):
        tolerance = max(4 * graph.output_types[0].dtype.epsilon, 1e-5)
        size = np.abs(exact).max()
        assert np.allclose(output.astype(np.float64), exact, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize(("dtype", "place"), [("f16", 0), ("bf16", 3), ("f32", 9)], ids=str)
@pytest.mark.parametrize("transposed", [True, False], ids=["along", "across"])
@pytest.mark.sampled(2)
def test_schedules_pass_the_evaluator(
    dtype: str, place: int, transposed: bool, judge: Judge
) -> None:
    def project(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
        return mx.maximum(x @ (w.T if transposed else w) + b, 0)

    matrix = f"{dtype}[96,160]" if transposed else f"{dtype}[160,96]"
    task = Task(graph_of(project, [f"{dtype}[2,160]", matrix, f"{dtype}[96]"]), "project")
    evaluation = judge(task, lower(task.graph, schedules(task.graph, DEVICE)[place]))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("matrix", ["f16[4096,4096]", "f16[100,4096]", "f16[4096,77]"])
@pytest.mark.parametrize("transposed", [True, False], ids=["along", "across"])
@pytest.mark.sampled(1)
def test_schedules_fit_the_device(matrix: str, transposed: bool) -> None:
    depth = TensorType.parse(matrix).shape[1 if transposed else 0]
    graph = graph_of(
        lambda x, w: mx.tanh(x @ (w.T if transposed else w)), [f"f16[4,{depth}]", matrix]
    )
    space = schedules(graph, DEVICE)
    assert len(set(space)) == len(space) > 5
    for schedule in space:
        taken = footprint(graph, schedule)
        assert taken.threadgroup_bytes <= DEVICE.threadgroup_bytes
        assert taken.registers <= 128
        lower(graph, schedule)


def test_the_planner_takes_few_rows_and_leaves_many_to_mlx() -> None:
    weights = ["f16[512,64]", "f16[512,64]"]
    (region,) = partition(graph_of(gated, ["f16[1,64]", *weights]))
    assert [node.op for node in region.nodes].count("matmul") == 2
    assert all(
        node.op != "matmul"
        for r in partition(graph_of(gated, ["f16[96,64]", *weights]))
        for node in r.nodes
    )


def test_the_planner_takes_few_chosen_experts_and_leaves_many_to_mlx() -> None:
    def held(tokens: int) -> list[int]:
        weights = ["f16[64,512,256]"] * 2
        graph = graph_of(experts, [f"f16[1,{tokens},256]", *weights, f"u32[1,{tokens},8]"])
        return [sum(node.op == "gather_mm" for node in r.nodes) for r in partition(graph)]

    assert held(1) == [2]
    assert not any(held(16))


def test_a_product_of_chosen_experts_is_a_region_alone() -> None:
    def joined(x: mx.array, down: mx.array, chosen: mx.array) -> mx.array:
        return mx.gather_mm(x, down, rhs_indices=chosen).sum(axis=-3)

    (region,) = partition(graph_of(joined, ["f16[4,1,256]", "f16[64,256,512]", "u32[4]"]))
    assert "gather_mm" in [node.op for node in region.nodes]


def test_experts_pass_the_evaluator(judge: Judge) -> None:
    types = ["f16[2,1,128]", "f16[6,32,128]", "f16[6,32,128]", "u32[2,1,2]"]
    task = Task(graph_of(experts, types), "experts")
    evaluation = judge(task, lower(task.graph, schedules(task.graph, DEVICE)[0]))
    assert evaluation.is_correct, evaluation.summary


def test_a_norm_keeps_its_square_to_itself() -> None:
    def normed(x: mx.array, w: mx.array, g: mx.array) -> mx.array:
        return mx.fast.rms_norm(x @ w, g, 1e-5)

    regions = partition(graph_of(normed, ["f16[1,64]", "f16[64,64]", "f16[64]"]))
    assert [r.nodes[0].op == "matmul" for r in regions] == [False]


def test_every_second_column_of_a_product_is_read_by_no_kernel() -> None:
    graph = graph_of(lambda x, w: mx.tanh((x @ w)[..., ::2]), ["f16[1,64]", "f16[64,64]"])
    for region in partition(graph):
        task = region.extract()
        assert lower(task, schedules(task, DEVICE)[0]).kernels


def test_a_product_with_a_matrix_of_zeros_is_left_to_mlx() -> None:
    def empty(x: mx.array, y: mx.array) -> mx.array:
        return (x @ mx.zeros((64, 64), mx.float16)) * y * mx.sigmoid(y)

    regions = partition(graph_of(empty, ["f16[4,64]", "f16[4,64]"]))
    assert all(node.op != "matmul" for region in regions for node in region.nodes)


def test_chunks_share_the_terms_of_columns_too_few_to_fill_a_gpu() -> None:
    graph = graph_of(residual, ["f16[4,14336]", "f16[14336,4096]", "f16[4,4096]"])
    cuda = DeviceInfo(name="cuda", chip="test", runtime="test", measures_time=True)
    first, merge = lower(graph, schedules(graph, cuda)[0]).kernels
    threadgroups = math.prod(
        int(size) // int(own) for size, own in zip(first.grid, first.threadgroup, strict=True)
    )
    assert threadgroups > 132
    assert "load_run<packed_eight<half>>(w + " in first.source
    assert set(merge.inputs) == {"h", "chunk_sums"}


def test_a_matrix_of_one_row_has_schedules() -> None:
    graph = canonicalize(capture(lambda x, w: x @ w, mx.zeros((2, 1)), mx.zeros((1, 64))))
    assert schedules(graph, DEVICE)


def test_words_of_a_kernel_name_no_array() -> None:
    def add(chunk: mx.array, last: mx.array, slot: mx.array) -> mx.array:
        return chunk @ last + slot

    graph = graph_of(add, ["f16[2,64]", "f16[64,32]", "f16[32]"])
    first, merge = lower(graph, parse("dense(columns=1, strips=2, terms=4, chunks=2)")).kernels
    assert first.inputs == ("chunk_in", "last_in")
    assert merge.inputs == ("slot_in", "chunk_sums")


def test_what_does_not_divide_is_refused() -> None:
    graph = graph_of(linear, ["f32[2,77]", "f32[33,77]", "f32[33]"])
    with pytest.raises(UnsupportedError, match="runs of 4 do not divide 77 neighbours"):
        lower(graph, parse("dense(vector=4)"))
    with pytest.raises(UnsupportedError, match="4 teams of 2 columns do not divide 33"):
        lower(graph, parse("dense(columns=2, vector=1)"))
    with pytest.raises(UnsupportedError, match="lanes that share a column have terms=1"):
        lower(graph, parse("dense(columns=1, teams=1, vector=1, terms=2)"))
    across = graph_of(lambda x, w: mx.tanh(x @ w), ["f32[2,77]", "f32[77,64]"])
    with pytest.raises(UnsupportedError, match="turns of 4 terms do not divide 77"):
        lower(across, parse("dense(columns=1, vector=2, terms=4)"))
    with pytest.raises(UnsupportedError, match="3 lanes do not divide a simdgroup"):
        lower(across, parse("dense(columns=1, vector=2, lanes=3)"))
