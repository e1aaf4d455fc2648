"""Convolutions of every channel by itself are sums of few products inside a kernel."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest
from mlx.nn.layers.activations import silu

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.ir import Graph, TensorType
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.family import Pattern, classify
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Elementwise, parse
from kernelwright.plan import partition

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Function = Callable[..., mx.array]
IMAGE = mx.zeros((2, 7, 6, 4))
TOKENS = mx.zeros((1, 9, 8))

CASES: dict[str, tuple[Function, tuple[mx.array, ...]]] = {
    "padded": (
        lambda x, w: mx.conv2d(x, w, padding=1, groups=4),
        (IMAGE, mx.zeros((4, 3, 3, 1))),
    ),
    "strided, two filters a channel": (
        lambda x, w: mx.conv2d(x, w, stride=(2, 1), padding=(1, 0), groups=4),
        (IMAGE, mx.zeros((8, 3, 2, 1))),
    ),
    "dilated and turned round": (
        lambda x, w: mx.conv_general(x, w, padding=2, kernel_dilation=2, groups=4, flip=True),
        (IMAGE, mx.zeros((4, 3, 3, 1))),
    ),
    "padded more on one side": (
        lambda x, w: mx.conv_general(x, w, padding=([3], [0]), groups=8),
        (TOKENS, mx.zeros((8, 4, 1))),
    ),
    "behind a cache, with bias and activation": (
        lambda state, x, w, b: silu(mx.conv1d(mx.concatenate([state, x], axis=1), w, groups=8) + b),
        (mx.zeros((1, 3, 8)), TOKENS, mx.zeros((8, 4, 1)), mx.zeros((8,))),
    ),
    "before a norm": (
        lambda x, w: mx.fast.rms_norm(mx.conv1d(x, w, groups=8), None, 1e-5),
        (TOKENS, mx.zeros((8, 4, 1))),
    ),
}


def region_of(function: Function, *inputs: mx.array) -> Graph:
    (region,) = partition(ir.canonicalize(ir.capture(function, *inputs)))
    return region.extract()


def together(graph: Graph) -> list[Elementwise]:
    """Return the schedules with which a thread computes several rows."""
    found = (s for s in schedules(graph, DEVICE) if isinstance(s, Elementwise))
    return [schedule for schedule in found if schedule.rows > 1]


TALL: dict[str, tuple[Function, tuple[mx.array, ...]]] = {
    "padded": (
        lambda x, w: mx.conv2d(x, w, padding=1, groups=4),
        (mx.zeros((2, 7, 8, 4)), mx.zeros((4, 3, 3, 1))),
    ),
    "dilated": (
        lambda x, w: mx.conv_general(x, w, padding=([6], [0]), kernel_dilation=2, groups=8),
        (mx.zeros((2, 16, 8)), mx.zeros((8, 4, 1))),
    ),
    "behind a cache": (
        lambda state, x, w: mx.conv1d(mx.concatenate([state, x], axis=1), w, groups=8),
        (mx.zeros((1, 3, 8)), mx.zeros((1, 8, 8)), mx.zeros((8, 4, 1))),
    ),
    "odd channels": (
        lambda x, w: silu(mx.conv1d(x, w, padding=1, groups=5)),
        (mx.zeros((3, 8, 5)), mx.zeros((5, 3, 1))),
    ),
}


@pytest.mark.parametrize("name", TALL)
@pytest.mark.sampled(2)
def test_rows_of_one_thread_are_what_they_are_alone(name: str, run: Run, draw: Draw) -> None:
    function, inputs = TALL[name]
    graph = region_of(function, *inputs)
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    (alone,) = run(lower(graph, schedules(graph, DEVICE)[0]), graph, arrays)
    found_schedules = together(graph)[:6]
    assert found_schedules
    for schedule in found_schedules:
        (found,) = run(lower(graph, schedule), graph, arrays)
        # A product that is not padded is rounded once with its sum.
        assert found == pytest.approx(alone, rel=1e-6, abs=1e-6)


def test_what_rows_have_in_common_is_read_once() -> None:
    function, inputs = TALL["dilated"]
    graph = region_of(function, *inputs)
    source = lower(graph, parse("elementwise(vector=4, rows=4)")).kernels[0].source
    # Four taps of every second row: rows 0 to 3 read rows -6 to 3.
    assert source.count("(x + ") == 10


def test_rows_with_nothing_in_common_are_computed_apart() -> None:
    graph = region_of(lambda x, y: mx.exp(x) * y, mx.zeros((8, 16)), mx.zeros((16,)))
    assert together(graph) == []


def test_rows_that_do_not_divide_are_refused() -> None:
    function, inputs = TALL["dilated"]
    graph = region_of(function, *inputs)
    with pytest.raises(UnsupportedError, match="3 rows a thread do not divide 16 rows; use rows=1"):
        lower(graph, parse("elementwise(vector=4, rows=3)"))


@pytest.mark.parametrize("name", CASES)
def test_a_window_is_summed_in_the_kernel_that_reads_it(name: str, run: Run, draw: Draw) -> None:
    function, inputs = CASES[name]
    graph = region_of(function, *inputs)
    arrays = [draw(t, i) for i, t in enumerate(graph.input_types)]
    space = schedules(graph, DEVICE)
    (expected,) = ir.reference(graph, arrays)
    for schedule in {space[0], space[-1]}:
        (found,) = run(lower(graph, schedule), graph, arrays)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), schedule


@pytest.mark.parametrize(
    ("function", "window", "reason"),
    [
        (lambda x, w: mx.conv2d(x, w, groups=4), (4, 5, 5, 1), "convolution is a contraction op"),
        (lambda x, w: mx.conv2d(x, w), (8, 2, 2, 4), "convolution is a contraction op"),
        (
            lambda x, w: mx.conv2d(mx.exp(x), w, groups=4),
            (4, 3, 3, 1),
            "exp stands before a convolution, whose taps would all repeat it",
        ),
    ],
    ids=["many taps", "many channels", "computed"],
)
def test_other_convolutions_are_left_to_mlx(
    function: Function, window: tuple[int, ...], reason: str
) -> None:
    graph = ir.canonicalize(ir.capture(function, IMAGE, mx.zeros(window)))
    family = classify(graph)
    assert (family.pattern, family.reason) == (Pattern.NONE, reason)


def test_a_convolution_that_joins_channels_is_not_written_as_a_window() -> None:
    graph = ir.canonicalize(ir.capture(mx.conv2d, IMAGE, mx.zeros((8, 2, 2, 4))))
    with pytest.raises(UnsupportedError, match="convolution is a contraction op"):
        schedules(graph, DEVICE)
