"""Attention as one kernel: every mask, grouping and schedule computes what the graph means."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

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
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import footprint, lower, schedules
from kernelwright.metal.lower.attention.space import attention_layout
from kernelwright.metal.schedule import Attention, parse
from kernelwright.plan import partition
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


def windowed(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    rows = mx.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    columns = mx.arange(k.shape[2])[None]
    return plain(q, k, v, (columns <= rows) & (columns > rows - 9))


def lately(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return plain(q, k, v, mx.arange(k.shape[2])[None] >= k.shape[2] - 100)


def around(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    rows, columns = mx.arange(q.shape[2])[:, None], mx.arange(k.shape[2])
    return plain(q, k, v, mx.abs(rows - columns) < 9)


def gated(q: mx.array, k: mx.array, v: mx.array, gate: mx.array) -> mx.array:
    merged = plain(q * 2, k, v).transpose(0, 2, 1, 3).reshape(*gate.shape)
    return merged * mx.sigmoid(gate)


def quantized_cache(q: mx.array, k: mx.array, v: mx.array, scale: mx.array) -> mx.array:
    return plain(q, k.astype(q.dtype) * scale, v.astype(q.dtype) * scale)


def scaled_cache(
    q: mx.array, k: mx.array, k_scale: mx.array, v: mx.array, v_scale: mx.array
) -> mx.array:
    return plain(q, k.astype(q.dtype) * k_scale, v.astype(q.dtype) * v_scale)


def capped(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    scores = mx.tanh((q * 0.2) @ k.swapaxes(-1, -2) / 1.5) * 1.5
    return mx.softmax(scores, axis=-1, precise=True) @ v


Q, KV = "[2,4,3,32]", "[2,2,50,32]"
CASES: dict[str, tuple[Attend, list[str], str]] = {
    "half": (plain, ["f16" + Q, "f16" + KV, "f16" + KV], "lanes=8, queries=2, keys=2"),
    "one lane a key": (plain, ["f32" + Q, "f32" + KV, "f32" + KV], "lanes=1, queries=6"),
    "one key a turn": (causal, ["bf16" + Q, "bf16" + KV, "bf16" + KV], "lanes=32, queries=1"),
    "chunks": (causal, ["f32" + Q, "f32" + KV, "f32" + KV], "lanes=8, queries=3, chunks=4"),
    "sinks": (causal, ["f32" + Q, "f32" + KV, "f32" + KV, "f32[4]"], "lanes=4, queries=2"),
    "sinks after chunks": (
        causal,
        ["f16" + Q, "f16" + KV, "f16" + KV, "f16[4]"],
        "lanes=8, queries=6, keys=2, chunks=2",
    ),
    "other width of values": (plain, ["f32" + Q, "f32" + KV, "f32[2,2,50,20]"], "lanes=4"),
    "odd heads": (plain, ["f32[1,2,1,15]"] + ["f32[1,2,9,15]"] * 2, "lanes=1, simdgroups=2"),
    "added mask": (plain, ["f16" + Q, "f16" + KV, "f16" + KV, "f16[3,50]"], "lanes=8, keys=4"),
    "mask by head": (plain, ["f32" + Q, "f32" + KV, "f32" + KV, "bool[4,3,50]"], "lanes=8"),
    "window": (windowed, ["f32" + Q, "f32" + KV, "f32" + KV], "lanes=16, queries=3, keys=2"),
    "gate": (gated, ["f16" + Q, "f16" + KV, "f16" + KV, "f16[2,3,128]"], "lanes=8, chunks=2"),
    "bytes": (quantized_cache, ["f16" + Q, "i8" + KV, "i8" + KV, "f16[1,1,1,32]"], "lanes=8"),
    "bytes after chunks": (
        quantized_cache,
        ["f16" + Q, "i8" + KV, "i8" + KV, "f16[2,2,1,32]"],
        "lanes=8, queries=2, chunks=2",
    ),
    "several keys a lane": (
        causal,
        ["f32" + Q, "f32" + KV, "f32" + KV, "f32[4]"],
        "lanes=4, queries=2, keys=4",
    ),
    "several queries and keys a lane": (
        plain,
        ["f32" + Q, "f32" + KV, "f32" + KV, "f32[3,50]"],
        "lanes=2, queries=6, keys=4, chunks=2",
    ),
    "more keys than lanes": (plain, ["f16" + Q, "f16" + KV, "f16" + KV], "lanes=2, keys=8"),
    "soft cap": (capped, ["f32[1,2,3,32]"] + ["f32[1,2,40,32]"] * 2, "lanes=8, queries=3"),
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
    assert classify(graph).pattern is Pattern.ATTENTION
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(lower(graph, parse(f"attention({decisions})")), graph, arrays)
    (exact,) = reference(graph, arrays)
    tolerance = max(4 * graph.output_types[0].dtype.epsilon, 1e-5)
    assert np.allclose(found.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


def test_one_program_serves_any_number_of_keys(run: Run, draw: Draw) -> None:
    graph = graph_of(plain, ["f16" + Q, "f16" + KV, "f16" + KV, "f16[3,50]"])
    program = lower(graph, parse("attention(lanes=8, queries=2, keys=2, chunks=4)"))
    assert program.inputs[1].shape == (2, 2, "keys", 32)
    other = resize(graph, {(1, 2): 333})
    arrays = [draw(t, i) for i, t in enumerate(other.input_types)]
    (found,) = run(program, other, arrays)
    assert np.allclose(found, reference(other, arrays)[0], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("decisions", ["keys=2", "keys=2, chunks=2, simdgroups=2", "queries=2"])
@pytest.mark.parametrize("keys", [5, 333])
def test_a_window_is_walked_from_its_first_key(
    keys: int, decisions: str, run: Run, draw: Draw
) -> None:
    graph = graph_of(lately, ["f32[2,4,1,32]"] + ["f32[2,2,600,32]"] * 2)
    program = lower(graph, parse(f"attention(lanes=8, {decisions})"))
    assert program.inputs[1].shape == (2, 2, "keys", 32)
    assert "is_seen" not in program.kernels[0].source
    other = resize(graph, {(1, 2): keys})
    arrays = [draw(t, i) for i, t in enumerate(other.input_types)]
    (expected,) = reference(other, arrays)
    # What lies before the window may be anything.
    arrays[1][:, :, : max(keys - 100, 0)] = np.nan
    arrays[2][:, :, : max(keys - 100, 0)] = np.nan
    (found,) = run(program, other, arrays)
    assert np.allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_fewer_keys_than_queries_are_seen_from_the_end(run: Run, draw: Draw) -> None:
    graph = graph_of(around, ["f32[1,4,24,32]"] * 3)
    program = lower(graph, parse("attention(lanes=2, queries=2, simdgroups=2)"))
    other = resize(graph, {(1, 2): 20})
    arrays = [draw(t, i) for i, t in enumerate(other.input_types)]
    (found,) = run(program, other, arrays)
    assert np.allclose(found, reference(other, arrays)[0], rtol=2e-5, atol=2e-5)


def test_a_scaled_query_is_no_other_variable(run: Run, draw: Draw) -> None:
    types = ["f32[1,8,1,12]", "i8[1,2,40,12]", "f32[1,2,1,12]", "i8[1,2,40,12]", "f32[1,2,1,12]"]
    graph = graph_of(scaled_cache, types)
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (found,) = run(lower(graph, parse("attention(lanes=4, queries=4)")), graph, arrays)
    assert np.allclose(found, reference(graph, arrays)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "decisions",
    ["lanes=32, queries=2", "lanes=16, queries=2, keys=4", "lanes=4, queries=6, keys=4"],
)
def test_a_maximum_is_never_lowered(decisions: str, run: Run, draw: Draw) -> None:
    graph = graph_of(plain, ["f32" + Q, "f32" + KV, "f32" + KV])
    q, k, v = (draw(t, i) for i, t in enumerate(graph.input_types))
    # Weights relative to anything but a row's maximum would overflow.
    arrays = [q * 300, k, v]
    (found,) = run(lower(graph, parse(f"attention({decisions})")), graph, arrays)
    assert np.allclose(found, reference(graph, arrays)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("keys", [1, 2])
def test_values_may_be_the_keys_themselves(run: Run, draw: Draw, keys: int) -> None:
    graph = graph_of(lambda q, k: plain(q, k, k), ["f16[1,4,1,32]", "f16[1,1,64,32]"])
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    schedule = parse(f"attention(lanes=8, queries=4, simdgroups=2, keys={keys}, fixed=1)")
    (found,) = run(lower(graph, schedule), graph, arrays)
    assert np.allclose(found, reference(graph, arrays)[0], rtol=4e-3, atol=4e-3)


def test_queries_take_a_scale_that_all_keys_share() -> None:
    graph = graph_of(quantized_cache, CASES["bytes"][1])
    (kernel,) = lower(graph, parse("attention(lanes=8)")).kernels
    before, walk = kernel.source.split("for (uint first")
    assert "scale + start" in before.split("peak")[0]
    assert walk.count("scale + ") == 1


def test_several_causal_queries_and_a_fixed_schedule_keep_their_keys() -> None:
    three = graph_of(causal, ["f16" + Q, "f16" + KV, "f16" + KV])
    assert not lower(three, parse("attention(lanes=8)")).is_generic
    one = graph_of(causal, ["f16[1,2,1,32]"] + ["f16[1,2,64,32]"] * 2)
    assert lower(one, parse("attention(lanes=8)")).is_generic
    assert not lower(one, parse("attention(lanes=8, fixed=1)")).is_generic


def test_a_row_that_sees_nothing_is_uniform_as_in_mlx(run: Run, draw: Draw) -> None:
    graph = graph_of(plain, ["f32" + Q, "f32" + KV, "f32" + KV, "bool[3,50]"])
    q, k, v, mask = (draw(t, i) for i, t in enumerate(graph.input_types))
    mask[1] = False
    (found,) = run(lower(graph, parse("attention(lanes=8)")), graph, [q, k, v, mask])
    expected = np.array(plain(*map(mx.array, (q, k, v, mask))))
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "place"), [("f16", 0), ("bf16", 1), ("f32", 2), ("f16", 40)], ids=str
)
@pytest.mark.sampled(1)
def test_schedules_pass_the_evaluator(dtype: str, place: int, judge: Judge) -> None:
    types = [f"{dtype}[1,4,1,64]", f"{dtype}[1,2,77,64]", f"{dtype}[1,2,77,64]"]
    task = Task(graph_of(plain, types), "decode")
    program = lower(task.graph, schedules(task.graph, DEVICE)[place])
    evaluation = judge(task, program)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("head", [32, 64, 80, 96, 128, 256])
def test_schedules_fit_the_device(head: int) -> None:
    cache = f"f16[2,8,4096,{head}]"
    graph = graph_of(plain, [f"f16[2,32,1,{head}]", cache, cache])
    space = schedules(graph, DEVICE)
    assert len(set(space)) == len(space) > 10
    for schedule in space:
        taken = footprint(graph, schedule)
        assert taken.threadgroup_bytes <= DEVICE.threadgroup_bytes
        assert taken.registers <= 176
    first = space[0]
    assert isinstance(first, Attention)
    assert first.queries > 1
    assert first.simdgroups * first.chunks > 4


@pytest.mark.parametrize("head", [64, 128])
def test_first_schedules_on_cuda_weigh_every_score_once(head: int) -> None:
    cache = f"f16[32,8,4096,{head}]"
    graph = graph_of(plain, [f"f16[32,32,1,{head}]", cache, cache])
    cuda = DEVICE.model_copy(update={"name": "cuda"})
    for schedule in schedules(graph, cuda)[:4]:
        assert isinstance(schedule, Attention)
        assert schedule.queries == 4
        deal = attention_layout(graph, schedule).deal
        assert (deal.queries * deal.own_queries, deal.keys * deal.own_keys) == (4, schedule.keys)
        assert deal.queries * deal.keys * deal.alike == schedule.lanes
        assert deal.alike <= 2


def test_the_planner_takes_a_decode_step_and_leaves_a_prompt_to_mlx() -> None:
    cache = "f16[1,8,1024,64]"
    (region,) = partition(graph_of(gated, ["f16[1,8,1,64]", cache, cache, "f16[1,1,512]"]))
    assert "attention" in {node.op for node in region.nodes}
    prompt = graph_of(gated, [cache, cache, cache, "f16[1,1024,512]"])
    assert all(node.op != "attention" for r in partition(prompt) for node in r.nodes)


def test_what_does_not_divide_is_refused() -> None:
    graph = graph_of(plain, ["f32" + Q, "f32" + KV, "f32" + KV])
    with pytest.raises(UnsupportedError, match="4 queries do not divide the 6 of a key head"):
        lower(graph, parse("attention(queries=4)"))
    odd = graph_of(plain, ["f32[1,2,1,15]"] + ["f32[1,2,9,15]"] * 2)
    with pytest.raises(UnsupportedError, match="16 lanes do not divide heads of 15"):
        lower(odd, parse("attention(lanes=16)"))
