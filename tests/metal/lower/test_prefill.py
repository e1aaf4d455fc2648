"""Attention of many queries: every mask, tile and ragged edge computes what the graph means."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.errors import UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.ir import (
    Dtype,
    Graph,
    TensorType,
    canonicalize,
    capture,
    gather_attention,
    reference,
    resize,
)
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.schedule import Prefill, parse
from kernelwright.plan import cost, partition
from tests.metal.lower.conftest import Judge

Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Attend = Callable[..., mx.array]
# The same cases every time: a test says what changed, not what was drawn.
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def plain(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None = None) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2, mask=mask)


def causal(q: mx.array, k: mx.array, v: mx.array, sinks: mx.array | None = None) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2, mask="causal", sinks=sinks)


def places(q: mx.array, k: mx.array) -> tuple[mx.array, mx.array]:
    return mx.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], mx.arange(k.shape[2])[None]


def windowed(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    rows, columns = places(q, k)
    return plain(q, k, v, (columns <= rows) & (columns > rows - 9))


def near(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    rows, columns = places(q, k)
    return plain(q, k, v, mx.abs(rows - columns) < 9)


def capped(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    rows, columns = places(q, k)
    scores = mx.tanh((q * 0.2) @ k.swapaxes(-1, -2) / 5.0) * 5.0
    return mx.softmax(mx.where(columns <= rows, scores, -mx.inf), axis=-1, precise=True) @ v


def sloped(q: mx.array, k: mx.array, v: mx.array, slopes: mx.array) -> mx.array:
    rows, columns = places(q, k)
    distance = mx.abs(rows - columns).astype(q.dtype)
    scores = (q @ k.swapaxes(-1, -2)) * 0.2 - slopes[:, None, None] * distance
    return mx.softmax(mx.where(columns <= rows, scores, -mx.inf), axis=-1, precise=True) @ v


def gated(q: mx.array, k: mx.array, v: mx.array, gate: mx.array) -> mx.array:
    merged = plain(q * 2 + 1, k, v).transpose(0, 2, 1, 3).reshape(*gate.shape)
    return merged * mx.sigmoid(gate)


def bytes_of(q: mx.array, k: mx.array, v: mx.array, scale: mx.array) -> mx.array:
    return plain(q, k.astype(q.dtype) * scale, v.astype(q.dtype) * scale)


def projected(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return causal(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)))


Q, KV = "[2,4,35,64]", "[2,2,50,64]"
CASES: dict[str, tuple[Attend, list[str], str]] = {
    "whole tiles": (plain, ["f16[1,2,32,64]"] + ["f16[1,2,64,64]"] * 2, "simdgroups=2"),
    "ragged": (plain, ["bf16" + Q] + ["bf16" + KV] * 2, "simdgroups=1, keys=16"),
    "two rows": (causal, ["f16" + Q] + ["f16" + KV] * 2, "rows=2, simdgroups=2, keys=16"),
    "four rows": (causal, ["f32[1,1,33,16]"] * 3, "rows=4, simdgroups=1, keys=8"),
    "one tile for all": (causal, ["f16[1,2,9,32]"] * 3, "simdgroups=4, keys=64"),
    "sinks": (causal, ["f32" + Q] + ["f32" + KV] * 2 + ["f32[4]"], "rows=2, simdgroups=1"),
    "window": (windowed, ["f16" + Q] + ["f16" + KV] * 2, "simdgroups=1, keys=8"),
    "window of both sides": (near, ["f32" + Q] + ["f32" + KV] * 2, "simdgroups=2, keys=16"),
    "added mask": (plain, ["f16" + Q] + ["f16" + KV] * 2 + ["f16[35,50]"], "simdgroups=2"),
    "mask by head": (plain, ["f32" + Q] + ["f32" + KV] * 2 + ["bool[4,35,50]"], "keys=16"),
    "soft cap": (capped, ["bf16[1,2,40,64]"] * 3, "simdgroups=2"),
    "slopes": (sloped, ["f32[1,2,40,32]"] * 3 + ["f32[2]"], "simdgroups=2, keys=16"),
    "gate": (gated, ["f16" + Q] + ["f16" + KV] * 2 + ["f16[2,35,256]"], "simdgroups=1"),
    "bytes": (bytes_of, ["f16" + Q] + ["i8" + KV] * 2 + ["f16[1,1,1,64]"], "simdgroups=1"),
    "heads inside": (projected, ["f16[2,35,4,64]"] + ["f16[2,35,2,64]"] * 2, "simdgroups=2"),
    "odd heads": (causal, ["bf16[1,2,20,15]"] + ["bf16[1,2,33,15]"] * 2, "simdgroups=1"),
    "other width": (plain, ["f16[1,2,20,24]"] * 2 + ["f16[1,2,20,100]"], "simdgroups=1"),
}


def graph_of(function: Attend, types: Sequence[str]) -> Graph:
    inputs = [
        mx.zeros(t.shape, getattr(mx, "bool_" if t.dtype is Dtype.BOOL else t.dtype.value))
        for t in map(TensorType.parse, types)
    ]
    return gather_attention(canonicalize(capture(function, *inputs)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(4)
def test_attention_is_computed_as_written(name: str, run: Run, draw: Draw) -> None:
    function, types, decisions = CASES[name]
    graph = graph_of(function, types)
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(lower(graph, parse(f"prefill({decisions})")), graph, arrays)
    (exact,) = reference(graph, arrays)
    tolerance = max(4 * graph.output_types[0].dtype.epsilon, 2e-5)
    assert np.allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    function=st.sampled_from([plain, causal, windowed, near, capped]),
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
    sizes=st.tuples(st.integers(9, 40), st.integers(0, 30), st.sampled_from([8, 12, 20, 32])),
    decisions=st.tuples(
        st.sampled_from([1, 2]), st.sampled_from([1, 2, 4]), st.sampled_from([8, 16, 32])
    ),
)
def test_any_sizes_and_tiles_compute_the_same(
    function: Attend,
    dtype: str,
    sizes: tuple[int, int, int],
    decisions: tuple[int, int, int],
    run: Run,
    draw: Draw,
) -> None:
    queries, more, head = sizes
    heads = (4, 4 if function is capped else 2)
    cache = f"{dtype}[1,{heads[1]},{queries + more},{head}]"
    graph = graph_of(function, [f"{dtype}[1,{heads[0]},{queries},{head}]", cache, cache])
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(lower(graph, Prefill(*decisions)), graph, arrays)
    (exact,) = reference(graph, arrays)
    tolerance = max(4 * graph.output_types[0].dtype.epsilon, 2e-5)
    assert np.allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("schedule", ["rows=2, simdgroups=2, keys=16", "simdgroups=1, keys=32"])
@pytest.mark.parametrize(
    ("function", "queries", "fixed"),
    [(causal, 24, 0), (windowed, 24, 1), (windowed, 64, 0), (causal, 100, 1), (windowed, 100, 0)],
)
@pytest.mark.sampled(2)
def test_tiles_that_are_asked_for_ahead_compute_the_same(
    function: Attend, queries: int, schedule: str, fixed: int, run: Run, draw: Draw
) -> None:
    graph = graph_of(function, [f"f32[2,4,{queries},32]"] + [f"f32[2,2,{queries},32]"] * 2)
    program = lower(graph, parse(f"prefill({schedule}, fixed={fixed}, ahead=1)"))
    assert "key_ahead" in program.kernels[0].source
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(program, graph, arrays)
    assert np.allclose(found, reference(graph, arrays)[0], rtol=2e-5, atol=2e-5)


def test_unequal_parts_are_not_asked_for_ahead() -> None:
    graph = graph_of(causal, ["f16[1,2,64,20]"] * 3)
    tiled = [s for s in schedules(graph, DEVICE) if isinstance(s, Prefill)]
    assert {schedule.ahead for schedule in tiled} == {0}
    with pytest.raises(UnsupportedError, match="lower ahead to 0"):
        lower(graph, parse("prefill(keys=8, ahead=1)"))


@pytest.mark.parametrize("tokens", [1, 31, 100])
def test_one_program_serves_any_number_of_tokens(tokens: int, run: Run, draw: Draw) -> None:
    graph = graph_of(windowed, ["f32[2,4,64,32]"] + ["f32[2,2,64,32]"] * 2)
    program = lower(graph, parse("prefill(simdgroups=2, keys=16)"))
    assert program.inputs[1].shape == (2, 2, "tokens", 32)
    assert program.outputs[0].shape == (2, 4, "tokens", 32)
    other = resize(graph, {(0, 2): tokens, (1, 2): tokens})
    arrays = [draw(t, i) for i, t in enumerate(other.input_types)]
    (found,) = run(program, other, arrays)
    assert np.allclose(found, reference(other, arrays)[0], rtol=2e-5, atol=2e-5)


def test_more_keys_than_queries_and_a_fixed_schedule_keep_their_numbers() -> None:
    longer = graph_of(causal, ["f16[1,2,32,32]"] + ["f16[1,2,64,32]"] * 2)
    assert not lower(longer, parse("prefill()")).is_generic
    square = graph_of(causal, ["f16[1,2,64,32]"] * 3)
    assert lower(square, parse("prefill()")).is_generic
    assert not lower(square, parse("prefill(fixed=1)")).is_generic


def test_keys_out_of_sight_are_not_read(run: Run, draw: Draw) -> None:
    graph = graph_of(windowed, ["f32[1,1,64,32]"] * 3)
    q, k, v = (draw(t, i) for i, t in enumerate(graph.input_types))
    (expected,) = reference(graph, [q, k, v])
    v[0, 0, 40:] = np.nan
    (found,) = run(lower(graph, parse("prefill(simdgroups=1, keys=8)")), graph, [q, k, v])
    assert np.allclose(found[0, 0, :40], expected[0, 0, :40], rtol=2e-5, atol=2e-5)
    assert np.isnan(found[0, 0, 40:]).all()


@pytest.mark.parametrize("decisions", ["keys=32", "keys=16, ahead=1"])
def test_nothing_comes_of_places_behind_the_last_key(decisions: str, run: Run, draw: Draw) -> None:
    graph = graph_of(plain, ["f32[1,1,16,32]"] + ["f32[1,1,44,32]"] * 2)
    q, k, v = (draw(t, i) for i, t in enumerate(graph.input_types))
    v[0, 0, -1] = -np.inf
    (found,) = run(lower(graph, parse(f"prefill(simdgroups=1, {decisions})")), graph, [q, k, v])
    assert (found == -np.inf).all()


def test_a_row_that_a_mask_hides_is_uniform_as_in_mlx(run: Run, draw: Draw) -> None:
    graph = graph_of(plain, ["f32" + Q] + ["f32" + KV] * 2 + ["bool[35,50]"])
    q, k, v, mask = (draw(t, i) for i, t in enumerate(graph.input_types))
    mask[1] = False
    mask[2, :40] = False
    (found,) = run(lower(graph, parse("prefill(simdgroups=2)")), graph, [q, k, v, mask])
    expected = np.array(plain(*map(mx.array, (q, k, v, mask))))
    assert np.allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "dtype", "place"),
    [(windowed, "f16", 0), (capped, "bf16", 3), (causal, "f32", 7)],
)
@pytest.mark.sampled(1)
def test_schedules_pass_the_evaluator(
    function: Attend, dtype: str, place: int, judge: Judge
) -> None:
    task = Task(graph_of(function, [f"{dtype}[1,2,37,32]"] * 3), "prefill")
    schedule = schedules(task.graph, DEVICE)[place]
    assert isinstance(schedule, Prefill)
    evaluation = judge(task, lower(task.graph, schedule))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize(
    "decisions",
    ["simdgroups=2, keys=32, fixed=1", "rows=4, simdgroups=2, keys=32, fixed=1, ahead=1"],
)
@pytest.mark.sampled(1)
def test_keys_of_one_tile_have_no_peak_before_them(decisions: str, judge: Judge) -> None:
    """A question to which ordinary data has one answer would be an unproven branch."""
    types = ["bf16[1,2,32,64]", *["bf16[1,1,32,64]"] * 2]
    task = Task(graph_of(causal, types), "prefill")
    evaluation = judge(task, lower(task.graph, parse(f"prefill({decisions})")))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("head", [64, 80, 96, 128, 192, 256])
def test_schedules_fit_the_device(head: int, dtype: str) -> None:
    cache = f"{dtype}[1,8,2048,{head}]"
    graph = graph_of(plain, [f"{dtype}[1,32,2048,{head}]", cache, cache])
    space = [s for s in schedules(graph, DEVICE) if isinstance(s, Prefill)]
    assert len(set(space)) == len(space) >= 1
    for schedule in space:
        taken = footprint(graph, schedule)
        assert taken.threadgroup_bytes <= DEVICE.threadgroup_bytes
        assert taken.registers <= 192


def test_few_queries_share_keys_instead() -> None:
    cache = "f16[1,8,256,64]"
    space = schedules(graph_of(plain, ["f16[1,32,8,64]", cache, cache]), DEVICE)
    assert not any(isinstance(s, Prefill) for s in space)


def test_the_planner_takes_what_mlx_has_no_kernel_for() -> None:
    prompt, cache = "f16[1,8,1024,64]", "f16[1,8,1024,64]"
    cases: list[tuple[Attend, list[str], bool]] = [
        (causal, [prompt, cache, cache], False),
        (windowed, [prompt, cache, cache], True),
        (capped, [prompt, cache, cache], True),
        (sloped, [prompt, cache, cache, "f16[8]"], True),
        (plain, [prompt, cache, cache, "f16[8,1024,1024]"], False),
        (causal, ["f16[1,8,1024,256]"] * 3, True),
    ]
    for function, types, is_taken in cases:
        graph = graph_of(lambda *x, f=function: f(*x) * 2, types)
        regions = [r for r in partition(graph) if any(n.op == "attention" for n in r.nodes)]
        assert bool(regions) is is_taken, function.__name__
        for region in regions:
            gains = cost(region)
            assert gains.benefit_us > gains.benefit_over_compile_us / 2 > 0


def test_a_tile_has_whole_matrices() -> None:
    graph = graph_of(plain, ["f16[1,2,32,64]"] * 3)
    with pytest.raises(UnsupportedError, match="multiple of 8, found 12"):
        lower(graph, parse("prefill(keys=12)"))
