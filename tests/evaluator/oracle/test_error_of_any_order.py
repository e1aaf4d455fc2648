"""Sums whose terms come from several ops may be added up in any order, and nothing else widens."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import Reference, calibrate
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from tests.evaluator.oracle.test_running_error import passes

Floats = NDArray[np.float32]
LAST_BITS = np.float32(1 + 2.0**-19)


def case_of(function: Callable[..., mx.array], *arrays: Floats) -> Reference:
    graph = canonicalize(capture(function, *[mx.zeros(a.shape) for a in arrays]))
    task = Task(graph, "task")
    return calibrate(Case(graph, Distribution.NORMAL), arrays, task.output_tolerances)


def drawn(*shape: int, scale: float = 1.0, seed: int = 0) -> Floats:
    random = np.random.default_rng(seed)
    return np.asarray(scale * random.standard_normal(shape), np.float32)


def signs(count: int, seed: int) -> Floats:
    """Draw a row of numbers of nearly one size, of either sign."""
    values = drawn(1, count, seed=seed)
    return np.asarray(np.sign(values) * (1.5 + np.abs(values) % 0.25), np.float32)


def started_with(start: Floats, terms: Floats) -> Floats:
    """Add up the terms along the first axis, one after the other, from a start."""
    return np.asarray(np.cumsum(np.stack([start, *terms]), axis=0, dtype=np.float32)[-1])


class TestAStencil:
    x, up, left = (drawn(200, 64, scale=s, seed=i) for i, s in enumerate((1e3, 1.0, 1.0)))
    down, right = up * np.float32(-1.001), left * np.float32(-0.999)

    def case(self) -> Reference:
        def residual(
            x: mx.array, u: mx.array, d: mx.array, left: mx.array, r: mx.array
        ) -> mx.array:
            return 4 * x - ((u + d) + (left + r))

        return case_of(residual, self.x, self.up, self.down, self.left, self.right)

    def test_may_subtract_one_neighbour_after_the_other(self) -> None:
        found = (((4 * self.x - self.up) - self.down) - self.left) - self.right
        assert passes(self.case(), found)

    def test_has_all_its_neighbours_and_its_factor(self) -> None:
        found = ((4 * self.x - self.up) - self.down) - self.left
        assert not passes(self.case(), found)
        assert not passes(self.case(), (found - self.right) * LAST_BITS)


class TestAStartValue:
    x, w, start = drawn(64, 200), drawn(200, 32, seed=1), drawn(32, scale=1e4, seed=2)

    @property
    def products(self) -> Floats:
        return np.asarray(self.x.T[:, :, None] * self.w[:, None, :])

    @pytest.mark.parametrize(
        "function",
        [
            lambda x, w, b: x @ w + b,
            lambda x, w, b: mx.addmm(b, x, w),
            lambda x, w, b: b - mx.negative(x @ w),
            lambda x, w, b: mx.where(w[:1] > 9, 0.0, x @ w) + b,
        ],
    )
    def test_of_products_may_be_the_bias(self, function: Callable[..., mx.array]) -> None:
        one = case_of(function, self.x, self.w, self.start)
        begun = np.broadcast_to(self.start, (64, 32))
        assert passes(one, started_with(begun, self.products))
        assert not passes(one, started_with(begun, self.products[:-1]))
        assert not passes(one, started_with(begun, self.products) * LAST_BITS ** np.float32(16))

    def test_of_products_may_be_scaled(self) -> None:
        one = case_of(lambda x, w, b: 0.1 * (x @ w) + b, self.x, self.w, self.start)
        begun = np.broadcast_to(self.start, (64, 32))
        assert passes(one, started_with(begun, np.float32(0.1) * self.products))
        assert not passes(one, started_with(begun, np.float32(0.101) * self.products))

    @pytest.mark.parametrize("count", [50, 4000])
    def test_of_a_sum_may_be_another_operand(self, count: int) -> None:
        x = np.abs(drawn(64, count))
        start = np.float32(1e5) * np.ones((64, 1), np.float32)
        one = case_of(lambda x, b: x.sum(axis=-1, keepdims=True) + b, x, start)
        assert passes(one, started_with(start, x.T[:, :, None]))
        assert not passes(one, started_with(start, x.T[count // 2 :, :, None]))

    def test_of_a_convolution_may_be_the_bias(self) -> None:
        x, w, bias = drawn(2, 40, 6), drawn(4, 5, 6, seed=1), drawn(4, scale=1e4, seed=2)
        one = case_of(lambda x, w, b: mx.conv1d(x, w) + b, x, w, bias)
        begun = np.broadcast_to(bias, (2, 36, 4))
        terms = np.stack(
            [x[:, k : k + 36, c, None] * w[None, None, :, k, c] for k in range(5) for c in range(6)]
        )
        assert passes(one, started_with(begun, terms))
        assert not passes(one, started_with(begun, terms[1:]))


def test_terms_of_a_sum_may_be_added_one_by_one() -> None:
    x, near = drawn(64, 100, scale=1e3), drawn(64, 100, seed=1)
    y = (near - x).astype(np.float32)
    one = case_of(lambda x, y: (x + y).sum(axis=-1, keepdims=True), x, y)
    terms = np.stack([x, y], axis=-1).reshape(64, 200).T[:, :, None]
    zero = np.zeros((64, 1), np.float32)
    assert passes(one, started_with(zero, terms))
    assert not passes(one, started_with(zero, terms[:-2]))


def test_a_constant_factor_may_be_given_to_each_term() -> None:
    x = drawn(64, 100, scale=1e3)
    y = x + drawn(64, 100, seed=1)
    one = case_of(lambda x, y: (x - y) / 3 + 0.5, x, y)
    third = np.float32(1) / np.float32(3)
    assert passes(one, (x * third - y * third) + np.float32(0.5))
    assert not passes(one, (x * third - y * third) + np.float32(0.501))


def test_sums_that_overflow_in_one_order_only_judge_nobody() -> None:
    big = np.full((4, 40), 3e38, np.float32)
    one = case_of(lambda x, y, z: (x + z) + y, big, big, -big)
    with np.errstate(over="ignore"):
        assert passes(one, (big + big) - big)


class TestWhatKeepsItsOrder:
    def test_a_single_addition(self) -> None:
        x, y = drawn(50, 40), drawn(50, 40, seed=1)
        one = case_of(lambda x, y: x + y, x, y)
        assert passes(one, x + y)
        assert not passes(one, np.nextafter(x + y, np.float32(np.inf)))

    def test_a_product_beside_one_term(self) -> None:
        x, y, z = (drawn(50, 40, scale=s, seed=s) for s in (1, 2, 100))
        one = case_of(lambda x, y, z: x * y + z, x, y, z)
        assert passes(one, x * y + z)
        limits = one.expected_outputs[0].element_tolerance
        assert limits is not None
        spacing = np.spacing(np.abs(one.expected_outputs[0].rounded))
        assert (limits < 1.2 * spacing + 2.0**-22 * np.abs(x * y)).all()

    def test_what_a_function_takes(self) -> None:
        x = drawn(50, 40, scale=1e3)
        y = drawn(50, 40, seed=1) - x
        z = drawn(50, 40, seed=2)
        one = case_of(lambda x, y, z: mx.abs(x + y) * z, x, y, z)
        assert passes(one, np.abs(x + y) * z)
        assert not passes(one, np.abs(x + y) * z * LAST_BITS)

    def test_a_sum_that_all_elements_of_a_row_share(self) -> None:
        x = drawn(16, 4096) + np.float32(1000)
        one = case_of(lambda x: x - x.mean(axis=-1, keepdims=True), x)
        limits = one.expected_outputs[0].element_tolerance
        assert limits is not None
        assert limits.max() < 4 * (4 + 4 * 64) * 2.0**-24 * 1000


class TestASumOfChains:
    def test_counts_what_is_not_zero(self) -> None:
        x = np.zeros((2, 40000), np.float32)
        x[:, ::2001] = 0.5
        one = case_of(lambda x: mx.where(x > 0.4, x - 0.25, x * x).sum(axis=-1), x)
        limits = one.expected_outputs[0].element_tolerance
        assert limits is not None
        assert limits.max() < 1e-4

    def test_shows_a_lost_term_of_a_long_row_that_cancels(self) -> None:
        x, y = (signs(1 << 17, seed) for seed in range(2))
        one = case_of(lambda x, y: (x + y / 64).sum(axis=-1), x, y)
        whole = x.astype(np.float64) + y.astype(np.float64) / 64
        found = whole.sum(axis=-1)
        assert passes(one, found.astype(np.float32))
        assert not passes(one, (found - whole[:, 77]).astype(np.float32))
