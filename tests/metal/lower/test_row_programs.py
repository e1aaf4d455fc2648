"""What the planner puts into one region can be lowered, however rows are cut and joined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelwright import ir
from kernelwright.ir import Graph, TensorType
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
Draw = Callable[[TensorType, int], Array]
Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Step = Callable[[mx.array], mx.array]
"""Takes rows to rows of the same shape."""


def norm(x: mx.array) -> mx.array:
    return x * mx.rsqrt(mx.mean(mx.square(x), -1, keepdims=True) + 1)


def reset_left(x: mx.array, step: Step = mx.sigmoid) -> mx.array:
    changed, half = x * 1, x.shape[-1] // 2
    if half:
        changed[..., :half] = step(x[..., :half])
    return changed


def rotate_pairs(x: mx.array) -> mx.array:
    if x.shape[-1] % 2:
        return x
    even, odd = x[..., ::2], x[..., 1::2]
    angles = mx.cos(mx.arange(even.shape[-1]) * 0.3)
    return mx.stack([even * angles - odd, even + odd * angles], -1).reshape(x.shape)


def pairs_apart(x: mx.array) -> mx.array:
    return mx.concatenate([x[..., 1::2], -x[..., ::2]], -1)


def grouped(x: mx.array) -> mx.array:
    return x.reshape(*x.shape[:-1], -1, 2) if x.shape[-1] % 2 == 0 else x


def framed(x: mx.array) -> mx.array:
    return mx.pad(x[..., 1:-1], [(0, 0)] * (x.ndim - 1) + [(1, 1)]) if x.shape[-1] > 2 else x


def first_three(x: mx.array) -> mx.array:
    return mx.where(mx.arange(x.shape[-1]) < 3, x, mx.sum(x, -1, keepdims=True))


STEPS: tuple[Step, ...] = (
    norm,
    reset_left,
    rotate_pairs,
    pairs_apart,
    framed,
    lambda x: mx.softmax(x, -1),
    lambda x: x - mx.max(x, -1, keepdims=True),
    first_three,
    lambda x: mx.roll(x, 1, -1),
    lambda x: mx.take(x, mx.arange(x.shape[-1] - 1, -1, -1), -1),
    mx.tanh,
    lambda x: x * 2 + 1,
    lambda x: x - mx.mean(grouped(x), -1, keepdims=True).reshape(*x.shape[:-1], -1).sum(),
)


@dataclass(frozen=True)
class Parts:
    """Changes both parts of every row by themselves."""

    left: Step
    right: Step
    cut: int

    def __call__(self, x: mx.array) -> mx.array:
        cut = self.cut % x.shape[-1]
        if cut == 0:
            return self.right(x)
        return mx.concatenate([self.left(x[..., :cut]), self.right(x[..., cut:])], -1)


@dataclass(frozen=True)
class Reshaped:
    """Changes rows of another shape: all in one list, heads apart, or outer axes exchanged."""

    step: Step
    way: str

    def __call__(self, x: mx.array) -> mx.array:
        if self.way == "flat":
            return self.step(x.reshape(-1, x.shape[-1])).reshape(x.shape)
        if self.way == "turned":
            return self.step(x.swapaxes(0, -2)).swapaxes(0, -2)
        heads = 2 if x.shape[-1] % 2 == 0 else 1
        return self.step(x.reshape(*x.shape[:-1], heads, -1)).reshape(x.shape)


def steps() -> st.SearchStrategy[Step]:
    """Draw a step, or one made of others."""
    single = st.sampled_from(STEPS)
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.builds(Parts, inner, inner, st.sampled_from([1, 2, 4, 6])),
            st.builds(Reshaped, inner, st.sampled_from(["flat", "turned", "heads"])),
        ),
        max_leaves=4,
    )


ENDS: tuple[Callable[[list[mx.array]], list[mx.array]], ...] = (
    lambda made: made[-1:],
    lambda made: made[-2:],
    lambda made: [made[-1], mx.sum(made[-1], -1)],
    lambda made: [made[-1].swapaxes(0, -2)],
    lambda made: [made[-1] + made[0], made[-1].reshape(-1)],
)


def graph_of(function: Callable[[mx.array], object], shape: tuple[int, ...]) -> Graph:
    return ir.gather_attention(ir.canonicalize(ir.capture(function, mx.zeros(shape))))


@given(
    shape=st.sampled_from([(6, 8), (2, 3, 12), (1, 2, 8), (40, 6), (2, 1, 3, 4)]),
    steps=st.lists(steps(), min_size=2, max_size=6),
    end=st.sampled_from(ENDS),
)
@example(
    # An output that has the rows' number by chance, and keeps it where they become twice as many.
    shape=(6, 8),
    steps=[
        norm,
        norm,
        Parts(norm, Reshaped(first_three, "flat"), 2),
        norm,
        Parts(norm, first_three, 2),
    ],
    end=ENDS[0],
)
@settings(max_examples=60, deadline=None)
def test_every_region_that_the_planner_chooses_can_be_lowered(
    shape: tuple[int, ...],
    steps: list[Step],
    end: Callable[[list[mx.array]], list[mx.array]],
) -> None:
    def function(x: mx.array) -> list[mx.array]:
        made = [x]
        for step in steps:
            made.append(step(made[-1]))
        return end(made)

    for region in partition(graph_of(function, shape)):
        graph = region.extract()
        program = lower(graph, schedules(graph, DEVICE)[0])
        assert program.kernels, ir.describe(graph)


JOINED: dict[str, Step] = {
    "the second half rotated in pairs behind a norm": lambda x: Parts(
        lambda left: left, rotate_pairs, 4
    )(norm(x)),
    "heads rolled behind a norm": Reshaped(lambda x: mx.roll(norm(x), 2, -1), "heads"),
    "every other element of a joined row": lambda x: pairs_apart(pairs_apart(norm(x))) + x,
    "a frame around normed rows of another shape": lambda x: framed(
        Reshaped(lambda rows: norm(rows), "flat")(x)
    ),
    "pairs of heads apart behind a rolled norm": lambda x: Reshaped(pairs_apart, "heads")(
        mx.roll(norm(x), 1, -1)
    ),
    "parts of a rolled norm, moved each in its own way": lambda x: Parts(
        Reshaped(pairs_apart, "heads"), rotate_pairs, 6
    )(pairs_apart(mx.roll(norm(x), 1, -1))),
    "a half of every head behind a softmax": lambda x: Reshaped(
        Parts(mx.tanh, mx.negative, 2), "heads"
    )(mx.softmax(x, -1)),
}


@pytest.mark.parametrize("name", JOINED)
def test_rows_joined_of_parts_hold_what_they_should(name: str, run: Run, draw: Draw) -> None:
    regions = partition(graph_of(JOINED[name], (2, 6, 8)))
    assert regions
    for region in regions:
        graph = region.extract()
        arrays = [draw(t, 0) for t in graph.input_types]
        program = lower(graph, schedules(graph, DEVICE)[0])
        (found,), (expected,) = run(program, graph, arrays), ir.reference(graph, arrays)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
