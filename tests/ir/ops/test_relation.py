"""Which axes of an op's operands change together, and which none may change."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture, free_dimensions, gather_attention, resize

Function = Callable[..., mx.array]
Axes = list[tuple[tuple[int, int], ...]]


def _free(function: Function, *shapes: tuple[int, ...]) -> Axes:
    """Return the axes, by input, that change together."""
    arrays = [mx.zeros(shape) for shape in shapes]
    graph = gather_attention(canonicalize(capture(function, *arrays)))
    return [dimension.axes for dimension in free_dimensions(graph)]


def _attention(q: mx.array, k: mx.array, v: mx.array, mask: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask=mask)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (
            lambda x, y: mx.concatenate([x, y], axis=1),
            [(4, 6), (4, 10)],
            [((0, 0), (1, 0)), ((0, 1),), ((1, 1),)],
        ),
        (
            lambda x, y: mx.concatenate([x, y], axis=1) * 2,
            [(4, 6, 5), (4, 6, 5)],
            [((0, 0), (1, 0)), ((0, 1),), ((0, 2), (1, 2)), ((1, 1),)],
        ),
        (
            lambda x, w: mx.conv2d(x, w, stride=(1, 3), padding=(1, 0)),
            [(2, 9, 11, 5), (7, 3, 3, 5)],
            [((0, 0),), ((0, 1),), ((0, 2),), ((0, 3), (1, 3)), ((1, 0),)],
        ),
        (
            lambda x, w: mx.conv1d(x, w, groups=2),
            [(2, 9, 6), (4, 3, 3)],
            [((0, 0),), ((0, 1),)],
        ),
        (
            lambda x, y, b: mx.addmm(b, x, y),
            [(4, 6), (6, 10), (4, 10)],
            [((0, 0), (2, 0)), ((0, 1), (1, 0)), ((1, 1), (2, 1))],
        ),
        (
            _attention,
            [(2, 4, 6, 32), (2, 2, 10, 32), (2, 2, 10, 32), (6, 10)],
            [
                ((0, 0), (1, 0), (2, 0)),
                ((0, 2), (3, 0)),
                ((0, 3), (1, 3)),
                ((1, 2), (2, 2), (3, 1)),
                ((2, 3),),
            ],
        ),
    ],
)
def test_axes_that_an_op_ties_change_together(
    function: Function, shapes: list[tuple[int, ...]], expected: Axes
) -> None:
    assert sorted(_free(function, *shapes)) == expected


@pytest.mark.parametrize(
    ("transpose", "expected"),
    [(True, [((0, 0),), ((1, 0), (2, 0), (3, 0))]), (False, [])],
)
def test_packed_weights_may_have_more_rows_where_rows_are_columns_of_the_result(
    transpose: bool, expected: Axes
) -> None:
    def product(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.quantized_matmul(x, w, scales, biases, transpose, 64, 4)

    weights = mx.quantize(mx.zeros((128, 64)), 64, 4)
    x = mx.zeros((5, 64 if transpose else 128))
    graph = canonicalize(capture(product, x, *weights))
    assert sorted(d.axes for d in free_dimensions(graph)) == expected
    if transpose:
        assert resize(graph, {(1, 0): 72}).output_types[0].shape == (5, 72)


@pytest.mark.parametrize(("scale", "is_free"), [(16**-0.5, False), (1 / 16, False), (0.3, True)])
def test_a_depth_from_which_a_scale_may_come_is_kept(scale: float, is_free: bool) -> None:
    def attend(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return mx.softmax(q @ k.swapaxes(-1, -2) * scale, axis=-1) @ v

    free = _free(attend, *((1, 2, 3, 16), (1, 2, 9, 16), (1, 2, 9, 24)))
    assert (((0, 3), (1, 3)) in free) is is_free
