"""Gradients, jvp and vmap through kernels are those of the original."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.runtime.derivative import Flat, with_derivatives_of
from kernelwright.runtime.export.function.differentiable import _differentiable


def original(x: mx.array, y: mx.array) -> list[mx.array]:
    return [mx.sin(x) * y, x + mx.square(y)]


@pytest.fixture
def served() -> Flat:
    """Compute the original's values in a way that MLX cannot differentiate."""

    def run(x: mx.array, y: mx.array) -> list[mx.array]:
        return [mx.stop_gradient(made) for made in original(x, y)]

    return with_derivatives_of(original, run)


def arrays() -> list[mx.array]:
    random = np.random.default_rng(0)
    return [mx.array(random.standard_normal((3, 4), dtype=np.float32)) for _ in range(2)]


def test_values_are_the_kernels(served: Flat) -> None:
    for a, b in zip(served(*arrays()), original(*arrays()), strict=True):
        assert mx.array_equal(a, b).item()


def test_gradients_are_the_originals(served: Flat) -> None:
    def loss(function: Flat) -> Flat:
        return lambda x, y: mx.sum(function(x, y)[0]) + mx.sum(mx.square(function(x, y)[1]))  # type: ignore[return-value]

    found = mx.grad(loss(served), argnums=(0, 1))(*arrays())
    expected = mx.grad(loss(original), argnums=(0, 1))(*arrays())
    for a, b in zip(found, expected, strict=True):
        assert mx.allclose(a, b).item()
        assert mx.any(a != 0).item()


def test_jvp_is_the_originals(served: Flat) -> None:
    tangents = [mx.ones((3, 4)), 2 * mx.ones((3, 4))]
    for a, b in zip(
        mx.jvp(served, arrays(), tangents)[1], mx.jvp(original, arrays(), tangents)[1], strict=True
    ):
        assert mx.allclose(a, b).item()


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (0, None)])
def test_vmap_is_the_originals(served: Flat, axes: tuple[int | None, ...]) -> None:
    x, y = arrays()
    given = [x, y if axes[1] is not None else y[0]]
    found = mx.vmap(lambda a, b: tuple(served(a, b)), in_axes=axes)(*given)
    expected = mx.vmap(lambda a, b: tuple(original(a, b)), in_axes=axes)(*given)
    for a, b in zip(found, expected, strict=True):
        assert mx.allclose(a, b).item()


@pytest.mark.parametrize("place", [0, 1])
def test_jvp_along_some_arrays_leaves_the_others_still(served: Flat, place: int) -> None:
    given = arrays()

    def along(function: Flat) -> list[mx.array]:
        def of_one(array: mx.array) -> list[mx.array]:
            return function(*given[:place], array, *given[place + 1 :])

        return mx.jvp(of_one, [given[place]], [mx.ones((3, 4))])[1]

    for a, b in zip(along(served), along(original), strict=True):
        assert mx.allclose(a, b).item()


def test_jvp_of_a_gather_leaves_its_indices_out() -> None:
    def gather(x: mx.array, rows: mx.array) -> list[mx.array]:
        return [mx.square(x[rows])]

    rows = mx.array([2, 0])
    served = with_derivatives_of(gather, gather)
    (x, _) = arrays()
    made = mx.jvp(lambda q: served(q, rows), [x], [mx.ones((3, 4))])[1]
    assert mx.allclose(made[0], 2 * x[rows]).item()


def test_a_run_that_needs_values_leaves_vmap_to_the_original() -> None:
    def run(x: mx.array, y: mx.array) -> list[mx.array]:
        mx.eval(x, y)
        return original(x, y)

    served = with_derivatives_of(original, run, is_lazy=False)
    for a, b in zip(
        mx.vmap(lambda p, q: tuple(served(p, q)))(*arrays()), original(*arrays()), strict=True
    ):
        assert mx.allclose(a, b).item()


def returned_twice(x: mx.array, y: mx.array) -> list[mx.array]:
    z = mx.sin(x) * y
    return [z, z, z.reshape(z.shape), x]


@pytest.mark.parametrize("derived", [with_derivatives_of, lambda f, run: _differentiable(run, f)])
def test_an_array_that_is_returned_twice_counts_twice_in_gradients(
    derived: Callable[[Flat, Flat], Flat],
) -> None:
    def run(x: mx.array, y: mx.array) -> list[mx.array]:
        return [mx.stop_gradient(made) for made in returned_twice(x, y)]

    def loss(function: Flat) -> Callable[..., mx.array]:
        return lambda x, y: sum(
            (i * mx.square(made).sum() for i, made in enumerate(function(x, y), 1)), mx.array(0.0)
        )

    found = mx.grad(loss(derived(returned_twice, run)), argnums=(0, 1))(*arrays())
    expected = mx.grad(loss(returned_twice), argnums=(0, 1))(*arrays())
    for a, b in zip(found, expected, strict=True):
        assert mx.allclose(a, b).item()
