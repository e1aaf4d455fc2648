"""What prompts say of devices, graphs and costs."""

import re
from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.agents.roles.planner import planner_prompt
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.feedback import outcome, profile
from kernelwright.agents.roles.text.graph_text import (
    compiled_table,
    device_text,
    greedy_table,
    launches_text,
    mlx_page,
    node_table,
    renamed_inputs,
    task_text,
)
from kernelwright.agents.roles.text.judged_values import judged_sentences
from kernelwright.agents.session.tools.report import chip_of
from kernelwright.evaluator.evaluation import Speedup, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import Region, canonicalize, capture
from kernelwright.metal.device.base import BufferTraffic, Counters, DeviceInfo
from tests.agents.loopback.scene import BODY, DEVICE, attempt, draft


@pytest.mark.parametrize(
    ("chip", "measures_time", "words"),
    [
        ("Apple M3 Max", True, "Device: m3-max, 40 GPU cores, 400 GB/s from memory, 48 MiB"),
        ("Apple M77", True, "Device: Apple M77, on which programs are timed."),
        # What predicts is a profile of the evaluator's, whatever the simulator runs on.
        ("x86_64", False, "Device: m4-pro, 20 GPU cores, 273 GB/s"),
    ],
)
def test_a_device_is_told_by_what_it_can_do(chip: str, measures_time: bool, words: str) -> None:
    device = DeviceInfo(name="metal", chip=chip, runtime="", measures_time=measures_time)
    text = device_text(device)
    assert text.startswith(words)
    assert ("predicted" in text) is not measures_time


@pytest.mark.parametrize(
    ("chip", "said"),
    [
        ("Apple M1", "on m1:"),
        ("NVIDIA H200", "on h200:"),
        ("Apple M77", "on an average chip:"),
    ],
)
def test_a_planner_is_told_what_fusing_saves_on_the_device_of_the_search(
    chip: str, said: str
) -> None:
    device = DeviceInfo(name="metal", chip=chip, runtime="", measures_time=True)
    graph = canonicalize(capture(lambda x: mx.exp(x) * mx.sum(x), mx.ones((512, 1024))))
    found = chip_of(device)
    prompt = planner_prompt(graph, device).context
    assert f"predicted to save {said}" in prompt
    saved = greedy_table(graph, device)
    assert saved in prompt
    average = greedy_table(graph, device.model_copy(update={"chip": "Apple M77"}))
    assert (saved == average) is (found is None)


WEIGHT = mx.ones((16, 64))


def normed(x: mx.array) -> mx.array:
    scaled = x * mx.rsqrt(mx.sum(x * x, axis=-1, keepdims=True) + 1e-5)
    return mx.tanh(scaled * WEIGHT) * 2.0


GRAPH = canonicalize(capture(normed, mx.zeros((16, 64))))


def test_a_graph_tells_the_types_of_what_it_reads() -> None:
    lines = node_table(GRAPH).splitlines()
    assert lines[0].endswith(": f32[16,64], an input")
    assert lines[1].endswith(": f32[16,64], a weight")
    assert len(lines) == 2 + len(GRAPH.nodes)


def test_a_graph_tells_what_mlx_fuses_by_itself() -> None:
    # The square and the sum stay apart; what follows the sum, row by row and by element, fuses.
    ops = [node.op for node in GRAPH.nodes]
    groups = compiled_table(GRAPH)
    assert groups.count("nodes") >= 1
    assert str(len(ops) - 1) in groups
    assert str(ops.index("sum")) not in groups.replace("-", " ").replace(",", " ").split()


def test_speeds_are_told_against_mlx_by_the_names_that_people_use() -> None:
    speedups = [
        Speedup(
            baseline=name, ratio=ratio, lower=ratio, upper=ratio, confidence=1.0, kind="predicted"
        )
        for name, ratio in (("eager", 8.0), ("compile", 4.5), ("fast", 0.9))
    ]
    judged = attempt(
        draft(BODY), Status.CORRECT, "correct", predicted_us=4.66, speedups=tuple(speedups)
    ).evaluation
    assert outcome(judged) == (
        "Correct, predicted at 4.66 us, 0.90 times as fast as mx.fast (predicted)."
    )
    assert "4.50 times as fast as mx.compile (predicted), 8.00 times as fast as plain MLX" in (
        profile(judged)
    )


def test_scattered_accesses_are_told_as_waste() -> None:
    traffic = (
        BufferTraffic(name="x", bytes_read=4096, sectors_read=128),
        BufferTraffic(name="out", bytes_written=4096, sectors_written=512),
    )
    counters = Counters(
        kernel="affine_0123456789abcdef", threads=1024, threadgroups=4, buffers=traffic
    )
    judged = attempt(draft(BODY), Status.CORRECT, "correct", counters=(counters,)).evaluation
    lines = profile(judged).splitlines()
    assert lines[1] == "affine: 1024 threads in 4 groups."
    assert lines[2] == "  x: 4096 bytes read in 128 sectors of 32."
    assert lines[3] == ("  out: 4096 bytes written in 512 sectors of 32, 4.0 times what they fill.")


def test_a_mask_is_no_integer_to_the_judge() -> None:
    def blended(x: mx.array, mask: mx.array) -> mx.array:
        return mx.where(mask, x, 0.0)

    def told(kind: mx.Dtype) -> bool:
        graph = canonicalize(capture(blended, mx.zeros((4, 8)), mx.zeros((4, 8), kind)))
        return any("Integers" in sentence for sentence in judged_sentences(graph))

    assert not told(mx.bool_)
    assert told(mx.int32)


@pytest.mark.parametrize(
    ("fn", "subtracts"),
    [
        (lambda x: mx.tanh(x), False),
        (lambda x: x * mx.exp(-x * x), False),
        (lambda x: mx.exp(x) / mx.sum(mx.exp(x), axis=-1, keepdims=True), True),
        (lambda x: mx.softmax(x, axis=-1), True),
    ],
    ids=["tanh", "gaussian", "sum", "softmax"],
)
def test_a_maximum_is_subtracted_only_where_exponentials_are_added_up(
    fn: Callable[[mx.array], mx.array], subtracts: bool
) -> None:
    told = "\n".join(judged_sentences(canonicalize(capture(fn, mx.zeros((4, 8))))))
    assert "some hundreds" in told
    assert ("subtract a row's maximum" in told) is subtracts


@pytest.mark.parametrize(
    ("fn", "word"),
    [
        (lambda x, i: mx.take_along_axis(x, i, axis=1), "Indices are within their axis"),
        (lambda x, i: x.at[i[:, 0]].add(x), "Indices are within their axis"),
        (lambda x, i: mx.log2(x), "Zeros, negative and denormal arguments"),
        (lambda x, i: mx.cumprod(x, axis=1), "accumulate floats in float"),
        (lambda x, i: mx.where(x >= 0, x, 0), "what is not chosen may be NaN"),
    ],
    ids=["taken", "scattered", "logarithm", "product", "choice"],
)
def test_a_sentence_is_told_of_every_op_whose_record_asks_for_it(
    fn: Callable[..., mx.array], word: str
) -> None:
    graph = canonicalize(capture(fn, mx.zeros((4, 8)), mx.zeros((4, 8), mx.int32)))
    assert word in "\n".join(judged_sentences(graph))


def test_what_must_move_is_what_the_floor_counts() -> None:
    table, rows = mx.zeros((4096, 64)), mx.zeros((8, 64))
    graph = canonicalize(capture(lambda t, i: t[i] * 2, table, mx.zeros((8,), mx.int32)))
    told = task_text(Task(graph, "taken"), DEVICE)
    # Which rows are read the indices decide, of which two bytes tell them apart; all may be one.
    assert f"must move: {2 * 8 + 64 * 4} bytes read (of " in told
    assert f" ask for more), {rows.nbytes} bytes written" in told


def test_what_mx_fast_launches_is_told_where_it_has_a_part() -> None:
    def normed(x: mx.array) -> mx.array:
        return mx.fast.rms_norm(mx.sum(x, axis=1), None, 1e-5)

    graph = canonicalize(capture(normed, mx.zeros((32, 4, 64), mx.float16)))
    told = launches_text(graph, DEVICE).split("; ")
    assert told[-1].startswith("mx.compile with mx.fast's kernels launches 2 kernels, ")
    assert " us" in told[-1]


def _softmax(state: dict[str, list[mx.array]], device: mx.array) -> mx.array:
    scores = state["cache"][0] * device
    raised = mx.exp(scores - mx.max(scores, axis=-1, keepdims=True))
    return raised / mx.sum(raised, axis=-1, keepdims=True)


def test_a_planner_and_a_coder_call_inputs_alike_and_count_the_same_launches() -> None:
    example = {"cache": [mx.zeros((8, 64))]}, mx.zeros((64,))
    graph = canonicalize(capture(_softmax, *example))
    task = Task(Region(graph, tuple(range(len(graph.nodes)))).extract(), "softmax")
    names = Interface(task).input_names
    assert set(names) == {"state_cache_0", "device_in"}
    told = (
        planner_prompt(graph, DEVICE).context,
        task_text(task, DEVICE),
        mlx_page(task.graph, DEVICE),
    )
    counted = [re.findall(r"launches (\d+) kernels?", text) for text in told]
    assert counted == [["2", "2"]] * 3
    for text in told:
        assert all(re.search(rf"\b{name}\b", text) for name in names)
        assert "state.cache" not in text


def test_a_greedy_cut_is_told_with_the_launches_of_its_tasks() -> None:
    example = {"cache": [mx.zeros((8, 64))]}, mx.zeros((64,))
    graph = canonicalize(capture(_softmax, *example))
    assert "for 2 launches of MLX and 2 of mx.compile, saves" in greedy_table(graph, DEVICE)


def test_a_region_says_what_its_inputs_are_called_in_its_task() -> None:
    def two(x: mx.array, w: mx.array) -> mx.array:
        return mx.sort(x, axis=0) * w + 1

    graph = canonicalize(capture(two, mx.zeros((8, 64)), mx.zeros((64,))))
    rest = Region(graph, tuple(i for i, node in enumerate(graph.nodes) if node.op != "sort"))
    (own,) = set(Interface(Task(rest.extract(), "rest")).input_names) - {"w"}
    assert renamed_inputs(rest) == f"%0 is {own}"
    assert renamed_inputs(Region(graph, tuple(range(len(graph.nodes))))) == ""


def test_what_a_node_moves_counts_what_is_stored() -> None:
    x, w = mx.zeros((16, 64)), mx.zeros((64,))
    graph = canonicalize(capture(lambda x, w: mx.exp(x * 2.0 + w)[:, :8] - 1.0, x, w))
    moved = [line.split("  ")[1] for line in node_table(graph).splitlines() if "  " in line]
    # A number and a vector are read once, and a slice is all that is read of what it shows.
    whole, part = x.nbytes, x.nbytes // 8
    expected = [2 * whole, 2 * whole + w.nbytes, 2 * whole, 2 * part]
    assert [said for said in moved if said != "view"] == [
        *(f"{nbytes} bytes" for nbytes in expected[:-1]),
        f"{expected[-1]} bytes, output",
    ]


def test_a_task_of_integers_is_told_nothing_of_floats() -> None:
    def counted(x: mx.array) -> mx.array:
        return mx.where(x > 0, x, 0).sum(axis=-1) + x.max(axis=-1)

    told = task_text(Task(canonicalize(capture(counted, mx.zeros((4, 8), mx.int32))), "t"), DEVICE)
    assert "every element is exact" in told
    for word in ("NaN", "float64", "in float", "infinit"):
        assert word not in told.partition("What the judge tries")[2].partition("Device:")[0], told
