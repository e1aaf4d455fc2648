"""Bounds are as wide as sound arithmetic makes them, and no wider."""

from collections.abc import Callable
from functools import cache

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import draw
from kernelwright.evaluator.oracle.reference import Reference, calibrate, judge, prepare
from kernelwright.evaluator.oracle.running_error import analyse
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype

AnyArray = NDArray[np.generic]
Reals = NDArray[np.float64]
SHAPES = ((256, 2048), (64, 100), (1024, 4096))
HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)
DTYPES = (Dtype.FLOAT32, *HALVES)


def case_of(
    function: Callable[[mx.array], mx.array],
    x: AnyArray,
    kind: Distribution = Distribution.NORMAL,
) -> Reference:
    dtype = getattr(mx, x.dtype.name)
    graph = canonicalize(capture(function, mx.zeros(x.shape, dtype)))
    return calibrate(Case(graph, kind), (x,), Task(graph, "task").output_tolerances)


def passes(reference: Reference, found: AnyArray) -> bool:
    return judge(reference, [found])[0].is_acceptable


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


@cache
def softmax_case(shape: tuple[int, int], dtype: Dtype) -> Reference:
    graph = canonicalize(capture(softmax, mx.zeros(shape, getattr(mx, dtype.value))))
    return prepare(Case(graph, Distribution.NORMAL), Task(graph, "t").output_tolerances, "tests")


def weights(x: AnyArray, dtype: type = np.float32, missed: int = 0) -> AnyArray:
    """Return a softmax whose steps run in a format, the sum one column after the other."""
    wide: AnyArray = x.astype(np.float32).astype(dtype)
    powers: AnyArray = np.exp(wide - wide.max(axis=-1, keepdims=True))
    end = x.shape[-1] - missed
    total: AnyArray = np.cumsum(powers[:, :end], axis=-1, dtype=dtype)[:, -1:]
    return np.asarray(np.divide(powers, total))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
class TestSoftmax:
    def test_a_serial_sum_in_float32_is_right(self, shape: tuple[int, int], dtype: Dtype) -> None:
        one = softmax_case(shape, dtype)
        assert passes(one, weights(one.inputs[0]).astype(dtype.numpy))

    def test_a_sum_in_pairs_beside_exp2_is_right(
        self, shape: tuple[int, int], dtype: Dtype
    ) -> None:
        one = softmax_case(shape, dtype)
        x = one.inputs[0].astype(np.float32)
        scaled = (x - x.max(axis=-1, keepdims=True)) * np.float32(np.log2(np.e))
        powers = np.exp2(scaled)
        found = powers * (np.float32(1) / powers.sum(axis=-1, keepdims=True, dtype=np.float32))
        assert passes(one, found.astype(dtype.numpy))

    @pytest.mark.parametrize("factor", [2.0, 1.02])
    @pytest.mark.sampled(9)
    def test_a_factor_is_wrong(self, shape: tuple[int, int], dtype: Dtype, factor: float) -> None:
        one = softmax_case(shape, dtype)
        assert not passes(one, (one.expected_outputs[0].expected * factor).astype(dtype.numpy))

    def test_statistics_that_miss_the_last_columns_are_wrong(
        self, shape: tuple[int, int], dtype: Dtype
    ) -> None:
        one = softmax_case(shape, dtype)
        assert not passes(one, weights(one.inputs[0], missed=32).astype(dtype.numpy))

    def test_half_accumulators_are_wrong(self, shape: tuple[int, int], dtype: Dtype) -> None:
        one = softmax_case(shape, dtype)
        assert not passes(one, weights(one.inputs[0], np.float16).astype(dtype.numpy))

    def test_a_lost_nan_is_wrong(self, shape: tuple[int, int], dtype: Dtype) -> None:
        x = softmax_case(shape, dtype).inputs[0].copy()
        x[3, 5] = np.nan
        one = case_of(softmax, x)
        found = one.expected_outputs[0].rounded.copy()
        assert passes(one, found)
        found[3] = 0
        assert not passes(one, found)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_truncation_is_wrong(shape: tuple[int, int], dtype: Dtype) -> None:
    one = softmax_case(shape, dtype)
    spare = np.uint32({Dtype.FLOAT16: 13, Dtype.BFLOAT16: 16}[dtype])
    bits = weights(one.inputs[0]).astype(np.float32).view(np.uint32)
    assert not passes(one, (bits >> spare << spare).view(np.float32).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_intermediate_of_sixteen_bits_is_wrong(dtype: Dtype) -> None:
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(dtype.numpy)
    one = case_of(lambda x: mx.sigmoid(mx.sigmoid(x)), x)
    first = 1 / (1 + np.exp(-x.astype(np.float64)))
    plain = (1 / (1 + np.exp(-first))).astype(dtype.numpy)
    lower = first.astype(np.float16 if dtype is Dtype.FLOAT32 else Dtype.BFLOAT16.numpy)
    if dtype is Dtype.BFLOAT16:
        lower = (np.round(first * 16) / 16).astype(dtype.numpy)
    found = (1 / (1 + np.exp(-lower.astype(np.float64)))).astype(dtype.numpy)
    assert passes(one, plain)
    assert not passes(one, found)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_kernel_may_round_at_each_node_as_mlx_does_or_at_none(dtype: Dtype) -> None:
    def gelu(x: mx.array) -> mx.array:
        return 0.5 * x * (1 + mx.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    x = np.random.default_rng(0).standard_normal((64, 100)).astype(dtype.numpy)
    one, half = case_of(gelu, x), dtype.numpy

    def run(step: Callable[[Reals], AnyArray]) -> AnyArray:
        def at(value: AnyArray | float) -> Reals:
            return step(np.asarray(value, np.float64)).astype(np.float64)

        wide = x.astype(np.float64)
        cube = at(at(at(at(0.044715) * wide) * wide) * wide)
        inner = at(at(0.7978845608) * at(wide + cube))
        return at(at(at(0.5) * wide) * at(1 + at(np.tanh(inner)))).astype(half)

    assert passes(one, run(lambda a: a.astype(half)))
    assert passes(one, run(lambda a: a.astype(np.float32)))
    scaled = run(lambda a: a.astype(np.float32)).astype(np.float64) * 1.02
    assert not passes(one, scaled.astype(half))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_variance_in_one_pass_is_wrong_far_from_zero(shape: tuple[int, int]) -> None:
    def normalise(x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, None, None, 1e-5)

    x = (np.random.default_rng(0).standard_normal(shape) + 1000).astype(np.float32)
    one = case_of(normalise, x)
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    two = np.square(centred).mean(axis=-1, keepdims=True)
    once = np.square(x).mean(axis=-1, keepdims=True) - np.square(mean)
    assert passes(one, centred / np.sqrt(two + np.float32(1e-5)))
    assert not passes(one, centred / np.sqrt(np.abs(once) + np.float32(1e-5)))


def test_welford_and_kahan_are_right() -> None:
    x = (np.random.default_rng(0).standard_normal((64, 300)) + 14).astype(np.float32)
    one = case_of(lambda x: mx.var(x, axis=-1), x)
    mean, spread = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for count, column in enumerate(x.T, 1):
        delta = column - mean
        mean += delta / np.float32(count)
        spread += delta * (column - mean)
    assert passes(one, spread / np.float32(300))
    total = case_of(lambda x: mx.sum(x, axis=-1), x)
    sums, lost = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for column in x.T:
        term = column - lost
        after = sums + term
        lost, sums = (after - sums) - term, after
    assert passes(total, sums)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_quantizer_may_be_one_off_at_ties_only(dtype: Dtype) -> None:
    def quantize(x: mx.array) -> mx.array:
        wide = x.astype(mx.float32)
        scale = mx.max(mx.abs(wide), axis=-1, keepdims=True) / 127
        return mx.round(wide / scale).astype(mx.int8)

    x = np.random.default_rng(0).standard_normal((64, 1000)).astype(dtype.numpy)
    one = case_of(quantize, x)
    wanted = one.expected_outputs[0]
    right = wanted.rounded.copy()
    assert passes(one, right)
    open_ = np.flatnonzero(wanted.tolerance_at(np.arange(right.size)))
    assert open_.size < 0.002 * right.size
    off = right.copy()
    certain = np.setdiff1d(np.arange(20), open_)
    off.reshape(-1)[certain] = off.reshape(-1)[certain] - 1
    assert not passes(one, off)


def moved(x: mx.array) -> mx.array:
    return mx.concatenate([x.T[1:, ::-1], mx.pad(x.T[:1, :], [(0, 0), (0, 0)])], axis=0)


@pytest.mark.parametrize(
    ("function", "keeps_sign"),
    [(moved, True), (lambda x: mx.maximum(x, -x), False), (lambda x: mx.sort(x, axis=-1), False)],
    ids=["moves", "picks", "sorts"],
)
def test_what_rounds_nothing_is_exact_to_the_bit(
    function: Callable[[mx.array], mx.array], keeps_sign: bool
) -> None:
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    x[:, 7] = -0.0
    one = case_of(function, x)
    wanted = one.expected_outputs[0]
    assert wanted.element_tolerance is None
    assert wanted.keeps_sign is keeps_sign
    found = wanted.rounded.copy()
    found.reshape(-1)[11] = np.nextafter(found.reshape(-1)[11], np.float32(9))
    assert not passes(one, found)


def test_an_order_that_depends_on_the_rounding_of_what_is_compared_is_not_judged() -> None:
    # In float64 the third of the first row is largest; in float32 all are 1 or next to it.
    x = np.array([[17.0, 17.1, 17.2], [1.0, 2.0, 3.0]], np.float32)
    one = case_of(lambda x: mx.argmax(mx.sigmoid(x), axis=-1), x)
    assert passes(one, np.array([0, 2], np.uint32))
    assert not passes(one, np.array([2, 1], np.uint32))


@pytest.mark.parametrize("side", [-1, 1])
def test_a_threshold_that_rounding_moves_settles_no_infinity_of_the_mask(side: int) -> None:
    def masked(x: mx.array) -> mx.array:
        logprobs = x - mx.logsumexp(x, axis=-1, keepdims=True)
        limit = logprobs.max(axis=-1, keepdims=True) - 3.0
        return mx.where(logprobs < limit, -mx.inf, logprobs)

    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    x[0, 5] = np.float32(x[0].max() - 3.0) + side * 2.0**-22
    reference = case_of(masked, x)
    found = reference.expected_outputs[0].rounded.copy()
    other = found.copy()
    other[0, 5] = -np.inf if np.isfinite(found[0, 5]) else x[0, 5] - np.log(np.exp(x[0]).sum())
    assert passes(reference, found)
    assert passes(reference, other)
    other[3, np.isinf(found[3])] = -9.0
    assert not passes(reference, other)


def test_a_jump_behind_a_sum_depends_on_the_order_of_adding_up() -> None:
    x = np.stack([np.full(300, value, np.float32) for value in (1.1, 0.0, 1.101)])
    one = case_of(lambda x: mx.floor(mx.sum(x, axis=-1)), x, Distribution.TIED)
    accepted = [
        passes(one, np.array(answer, np.float32))
        for answer in ([330, 0, 330], [329, 0, 330], [330, -1, 330], [330, 0, 329])
    ]
    assert accepted == [True, True, False, False]


def standardised(x: mx.array) -> mx.array:
    return (x - mx.mean(x, axis=-1, keepdims=True)) / mx.std(x, axis=-1, keepdims=True)


def rescaled(x: mx.array) -> mx.array:
    return x / mx.sqrt(mx.sum(mx.square(x), axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("function", "value", "is_open"),
    [(standardised, 0.1, True), (standardised, 0.0, False), (rescaled, 0.0, False)],
)
def test_nan_is_held_to_unless_roundings_decide_on_it(
    function: Callable[[mx.array], mx.array], value: float, is_open: bool
) -> None:
    x = np.stack([np.full(200, np.float32(value)), np.arange(200, dtype=np.float32)])
    one = case_of(function, x, Distribution.CONSTANT)
    right = one.expected_outputs[0].expected.astype(np.float32)
    found = np.where(np.isnan(right), np.float32(1), right)
    assert passes(one, right)
    assert passes(one, found) is is_open
    assert not passes(one, found * np.float32(1.001))


@pytest.mark.parametrize(("roundings", "is_right"), [(4, True), (4000, False)])
def test_a_row_that_should_vanish_is_held_to_what_rounding_leaves(
    roundings: int, is_right: bool
) -> None:
    rows = np.stack([np.full(200, np.float32(0.1)), np.arange(200, dtype=np.float32)])
    one = case_of(lambda x: mx.fast.layer_norm(x, None, None, 1e-5), np.concatenate([rows, rows]))
    found = one.expected_outputs[0].expected.astype(np.float32)
    found[::2] = roundings * 2.0**-24 * 0.1 * 1e5**0.5
    assert passes(one, found) is is_right
    # And the other rows are not forgiven what that one is.
    found[::2], found[1::2] = 0, found[1::2] * 1.001
    assert not passes(one, found)


@pytest.mark.parametrize(("error", "is_right"), [(2.0**-24, True), (2.0**-12, False)])
def test_cancellation_widens_a_bound_and_lower_precision_does_not(
    error: float, is_right: bool
) -> None:
    x = (np.random.default_rng(0).standard_normal((2, 64)) + 14).astype(np.float32)
    one = case_of(lambda x: 1 - mx.sigmoid(x), x)
    sigmoid = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert passes(one, (1 - sigmoid * (1 + error)).astype(np.float32)) is is_right


def test_terms_that_are_rounded_alike_widen_a_sum_and_others_do_not() -> None:
    x = np.stack([np.full(4096, np.float32(1.3137)), np.linspace(1, 2, 4096, dtype=np.float32)])
    one = case_of(lambda x: mx.sum(x, axis=-1), x)
    serial = np.add.accumulate(x, axis=-1)[:, -1]
    assert passes(one, serial)
    limits = one.expected_outputs[0].tolerance_at(np.arange(2)) / serial
    assert limits[0] > 4 * limits[1]
    assert limits[1] < 2e-5


def test_an_overflow_in_half_on_the_way_is_not_judged() -> None:
    x = np.array([300.0, 3.0], np.float16)
    one = case_of(lambda x: mx.sqrt(x * x), x)
    assert one.expected_outputs[0].ignored_elements == 1
    assert passes(one, np.array([np.inf, 3], np.float16))
    assert passes(one, np.array([300, 3], np.float16))
    assert not passes(one, np.array([300, 3.01], np.float16))
    assert "50% of output 0 may change wholly" in one.masked
    assert not one.dropped
    assert not one.proves


@pytest.mark.parametrize("function", [mx.softmax, mx.logsumexp])
def test_a_row_whose_maximum_may_overflow_is_left_open(
    function: Callable[..., mx.array],
) -> None:
    """Twice the least float is minus infinity in float32, and minus infinity less itself NaN."""
    x = np.full((2, 40), np.finfo(np.float32).min, np.float32)
    x[1] = np.linspace(-1, 1, 40)
    graph = canonicalize(capture(lambda a: function(a * 2, axis=-1), mx.array(x)))
    (found,) = analyse(graph, [x])
    assert found.error is not None
    assert np.isnan(found.error[0]).all()
    assert np.isfinite(found.error[1]).all()


def test_overflows_of_both_signs_may_add_up_to_nan() -> None:
    def taps(x: mx.array) -> mx.array:
        return x[0] * x[1] + x[2] * x[3]

    x = np.array([[300, 2], [300, 3], [-300, 4], [600, 5]], np.float16)
    reference = case_of(taps, x)
    assert passes(reference, np.array([np.nan, 26], np.float16))
    assert passes(reference, np.array([-np.inf, 26], np.float16))
    assert not passes(reference, np.array([-np.inf, 27], np.float16))


def test_an_overflow_among_terms_may_outweigh_their_sum() -> None:
    def total(x: mx.array) -> mx.array:
        return mx.sum(x * mx.array([2, 1, 1, 1], mx.float16), axis=-1)

    x = np.array([[40000, -60000, -60000, -60000], [1, 2, 3, 4]], np.float16)
    reference = case_of(total, x)
    assert passes(reference, np.array([np.inf, 11], np.float16))
    assert passes(reference, np.array([-np.inf, 11], np.float16))
    assert not passes(reference, np.array([-np.inf, 12], np.float16))


def test_a_dequantized_number_may_be_rounded_before_its_bias_is_added() -> None:
    def widen(w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.dequantize(w, scales, biases, group_size=32, bits=4)

    shapes = [((1, 4), mx.uint32), ((1, 1), mx.float16), ((1, 1), mx.float16)]
    graph = canonicalize(capture(widen, *[mx.zeros(s, d) for s, d in shapes]))
    scale, bias = np.array([[1.2001953125]], np.float16), np.array([[-16.0]], np.float16)
    words = np.full((1, 4), 0xDDDDDDDD, np.uint32)
    tolerances = Task(graph, "task").output_tolerances
    reference = calibrate(Case(graph, Distribution.NORMAL), (words, scale, bias), tolerances)
    product = np.float16(13) * scale
    assert passes(reference, np.full((1, 32), product + bias, np.float16))
    assert not passes(reference, np.full((1, 32), product + bias + 0.05, np.float16))


@pytest.mark.parametrize(("size", "is_right"), [(1e-31, True), (1e-28, False)])
def test_what_meets_codes_may_be_divided_by_their_place_in_a_word(
    size: float, is_right: bool
) -> None:
    """What is divided by 2^28 may be flushed to zero that is none by itself."""

    def product(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.quantized_matmul(x, w, scales, biases, group_size=32, bits=4)

    random = np.random.default_rng(9)
    x = (size * random.uniform(1, 2, (1, 32))).astype(np.float32)
    levels = random.integers(1, 16, (8, 32))
    words = (levels.reshape(8, 4, 8) << np.arange(0, 32, 4)).sum(-1).astype(np.uint32)
    scales, biases = np.ones((8, 1), np.float32), np.zeros((8, 1), np.float32)
    given = (x, words, scales, biases)
    zeros = [mx.zeros(a.shape, getattr(mx, a.dtype.name)) for a in given]
    graph = canonicalize(capture(product, *zeros))
    tolerances = Task(graph, "task").output_tolerances
    reference = calibrate(Case(graph, Distribution.NORMAL), given, tolerances)
    places = 16.0 ** (np.arange(32) % 8)
    divided = (x / places).astype(np.float32)
    divided[np.abs(divided) < 2.0**-126] = 0
    assert passes(reference, (x @ levels.T.astype(np.float32)).astype(np.float32))
    assert passes(reference, divided @ (levels * places).T.astype(np.float32))
    lost = np.where(np.arange(32) % 8 == 7, 0, x)
    assert passes(reference, (lost @ levels.T).astype(np.float32)) is is_right


def test_an_overflow_may_meet_an_infinity_of_the_other_sign() -> None:
    def step(x: mx.array) -> mx.array:
        return x[0] + 0.001 * mx.square(x[1])

    x = np.array([[-np.inf, -np.inf, 1], [1e30, 1, 2]], np.float32)
    reference = case_of(step, x)
    assert passes(reference, np.array([np.nan, -np.inf, 1.004], np.float32))
    assert passes(reference, np.array([-np.inf, -np.inf, 1.004], np.float32))
    assert not passes(reference, np.array([-np.inf, np.nan, 1.004], np.float32))


def test_a_product_that_is_flushed_makes_anything_of_an_infinity() -> None:
    """A kernel loses what lies below float32's normal numbers; zero times infinity is NaN."""

    def norm(x: mx.array, weight: mx.array) -> mx.array:
        return x * mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + 1e-5) * weight

    x, weight = np.ones((2, 40), np.float32), np.ones(40, np.float32)
    x[0, :2], weight[0] = (1.17549435e-38, 1e15), np.inf
    graph = canonicalize(capture(norm, mx.array(x), mx.array(weight)))
    tolerances = Task(graph, "task").output_tolerances
    one = calibrate(Case(graph, Distribution.NORMAL), (x, weight), tolerances).expected_outputs[0]
    assert one.ignored is not None
    assert np.argwhere(one.ignored).tolist() == [[0, 0]]


def test_a_zero_that_rounding_moves_makes_anything_of_an_infinity() -> None:
    def scaled(x: mx.array) -> mx.array:
        row = x[:, :-1]
        return (row - mx.mean(row, axis=-1, keepdims=True)) * x[:, -1:] + 1.5

    x = np.full((2, 101), np.float32(-0.7219))
    x[:, -1], x[1, :-1] = np.inf, np.arange(100)
    reference = case_of(scaled, x)
    found = reference.expected_outputs[0].rounded.copy()
    assert np.isnan(found[0]).all()
    assert passes(reference, found)
    found[0] = np.inf
    assert passes(reference, found)
    found[1] = np.nan
    assert not passes(reference, found)


@pytest.mark.parametrize("function", [mx.mean, mx.sum, lambda x, axis: x @ mx.ones((4, 1))[:, 0]])
def test_terms_of_one_sign_may_overflow_though_all_together_do_not(
    function: Callable[..., mx.array],
) -> None:
    x = np.array([[3e38, 3e38, -3e38, -3e38], [1, 2, 3, 4], [9e37, 9e37, -9e37, 9e37]], np.float32)
    reference = case_of(lambda x: function(x, axis=-1), x)
    found = reference.expected_outputs[0].rounded.copy()
    for value in (0, np.nan, np.inf, -np.inf):
        found[0] = value
        assert passes(reference, found)
    found[2] = np.inf
    assert not passes(reference, found)


def test_a_sum_may_overflow_before_it_is_divided() -> None:
    x = np.array([[3e38, 3e38, 3e38, 3e38], [1, 2, 3, 4]], np.float32)
    reference = case_of(lambda x: mx.mean(x, axis=-1), x)
    assert passes(reference, np.array([3e38, 2.5], np.float32))
    assert passes(reference, np.array([np.inf, 2.5], np.float32))
    assert not passes(reference, np.array([3e38, np.inf], np.float32))


def test_a_weight_that_may_round_to_zero_makes_anything_of_an_infinity() -> None:
    x = np.array([[-20, -10], [np.inf, np.inf]], np.float16)
    reference = case_of(lambda x: mx.exp(x[0]) * x[1], x)
    assert passes(reference, np.array([np.inf, np.inf], np.float16))
    assert passes(reference, np.array([np.nan, np.inf], np.float16))
    assert not passes(reference, np.array([np.inf, np.nan], np.float16))


def test_a_weight_that_may_vanish_makes_anything_of_an_infinite_value() -> None:
    def weigh(x: mx.array) -> mx.array:
        return mx.softmax(x[:2], axis=-1) @ x[2:].T

    x = np.array([[0, -20, -1], [0, -1, -2], [1, np.inf, 1], [1, 2, 1]], np.float16)
    reference = case_of(weigh, x)
    found = reference.expected_outputs[0].rounded.copy()
    assert np.isposinf(found[:, 0].astype(np.float32)).all()
    for value in (np.nan, np.inf, 1):
        found[0, 0] = value
        assert passes(reference, found)
    found[1, 0] = np.nan
    assert not passes(reference, found)


def test_a_logarithm_that_cancels_the_larger_operand_is_rounded_by_itself() -> None:
    x = np.linspace(-0.6935, -0.6925, 500, dtype=np.float32)
    one = case_of(lambda x: mx.logaddexp(x, x * 1.0001), x)
    other = x * np.float32(1.0001)
    top, least = np.maximum(x, other), np.minimum(x, other)
    logarithm = np.log1p(np.exp(least - top)) * np.float32(1 + 2.0**-23)
    assert passes(one, top + logarithm)
    assert not passes(one, top + logarithm * np.float32(1 + 2.0**-19))


@pytest.mark.parametrize("repeated", [0.7, None])
def test_updates_that_all_meet_at_one_place_may_be_added_one_after_the_other(
    repeated: float | None,
) -> None:
    rng = np.random.default_rng(3)
    updates = rng.standard_normal(20000).astype(np.float32)
    updates = np.abs(updates) if repeated is None else np.full_like(updates, repeated)

    def counted(x: mx.array) -> mx.array:
        return mx.zeros((64,)).at[mx.full((20000,), 5, mx.int32)].add(x)

    reference = case_of(counted, updates)
    found = np.zeros(64, np.float32)
    found[5] = np.cumsum(updates, dtype=np.float32)[-1]
    assert passes(reference, found)
    found[5] *= np.float32(1.01)
    assert not passes(reference, found)


@pytest.mark.parametrize("order", ["one after the other", "halves first", "flushed"])
def test_products_may_become_denormal_on_the_way_and_large_again(order: str) -> None:
    x = np.full((4, 64), 1.0, np.float32)
    x[:, 3:9] = 1e-7
    x[:, 20:26] = 1.3e7
    x[2] = np.random.default_rng(4).uniform(0.6, 1.6, 64)
    reference = case_of(lambda a: mx.cumprod(a, axis=-1), x)
    found: AnyArray = np.cumprod(x, axis=-1, dtype=np.float32)
    if order == "halves first":
        found[:, 32:] = found[:, 31:32] * np.cumprod(x[:, 32:], axis=-1, dtype=np.float32)
    if order == "flushed":
        found = np.where(np.minimum.accumulate(np.abs(found), axis=-1) < 2.0**-126, 0, found)
    assert passes(reference, found.astype(np.float32))
    found[2, 40] *= np.float32(1.0001)
    assert not passes(reference, found.astype(np.float32))


@pytest.mark.parametrize("grows", [False, True], ids=["stays small", "grows again"])
def test_products_may_stay_at_the_least_denormal_that_their_factors_round_back_to(
    grows: bool,
) -> None:
    x = np.full((2, 300), 0.7, np.float32)
    x[:, :12] = 2.0**-12
    if grows:
        x[:, 200:] = 2.0
    reference = case_of(lambda a: mx.cumprod(a, axis=-1), x)
    found: AnyArray = np.cumprod(x, axis=-1, dtype=np.float32)
    assert found[0, 199] == 2.0**-149
    assert passes(reference, found)
    found[1, 5] *= np.float32(1.0001)
    assert not passes(reference, found)


def test_a_product_that_underflows_may_stay_zero_where_the_ideal_one_overflows() -> None:
    x = np.full((2, 90), 1e-3, np.float32)
    x[:, 40:] = 1e6
    x[1, 80:] = np.inf
    reference = case_of(lambda a: mx.cumprod(a, axis=-1), x)
    with np.errstate(invalid="ignore"):
        found: AnyArray = np.cumprod(x, axis=-1, dtype=np.float32)
    assert found[0, -1] == 0
    assert np.isnan(found[1, -1])
    assert passes(reference, found)


def test_a_factor_of_zero_ends_what_denormals_may_cost() -> None:
    x = np.full((2, 40), 2.0**-12, np.float32)
    x[:, 30] = 0.0
    reference = case_of(lambda a: mx.cumprod(a, axis=-1), x)
    found: AnyArray = np.cumprod(x, axis=-1, dtype=np.float32)
    assert passes(reference, found)
    found[0, 35] = 2.0**-149
    assert not passes(reference, found)


def test_what_rounds_to_infinity_may_not_where_the_graph_rounds_on_the_way() -> None:
    def steps(x: mx.array) -> mx.array:
        h = x[:, 0]
        for k in (1, 3, 5):
            h = x[:, k] * h + x[:, k + 1]
        return h

    x = np.array([[727.5, -5, -3.08, 3, -3.02, -6, -8]] * 2, np.float16)
    x[1, 5] = -13
    reference = case_of(steps, x)
    largest = np.float16(65504)
    assert passes(reference, np.array([largest, np.inf], np.float16))
    assert passes(reference, np.array([np.inf, np.inf], np.float16))
    assert not passes(reference, np.array([largest, largest], np.float16))


def test_updates_that_meet_may_overflow_in_one_order_and_not_in_another() -> None:
    x = np.array([3e38, 3e38, -3e38, -3e38, 1.0, 1e38], np.float32)
    indices = mx.array([2, 2, 2, 2, 0, 1], mx.int32)
    reference = case_of(lambda a: mx.zeros((3,)).at[indices].add(a), x)
    assert passes(reference, np.array([1, 1e38, np.inf], np.float32))
    assert passes(reference, np.array([1, 1e38, 0], np.float32))
    assert not passes(reference, np.array([1, np.inf, 0], np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_quotient_may_be_rounded_to_a_whole_number_before_it_is_rounded_down(
    dtype: Dtype,
) -> None:
    random = np.random.default_rng(0)
    y = random.uniform(0.1, 3, (64, 100)).astype(dtype.numpy).astype(np.float32)
    whole = random.integers(-50, 50, y.shape)
    x = np.nextafter(y * whole.astype(np.float32), np.float32(-np.inf)).astype(dtype.numpy)
    other = y.astype(dtype.numpy)

    def divided(a: mx.array, b: mx.array) -> mx.array:
        return a // b

    kind = getattr(mx, dtype.value)
    graph = canonicalize(capture(divided, mx.zeros(x.shape, kind), mx.zeros(x.shape, kind)))
    case = Case(graph, Distribution.NORMAL)
    one = calibrate(case, (x, other), Task(graph, "task").output_tolerances)
    quotient = np.floor(x.astype(np.float32) / other.astype(np.float32)).astype(dtype.numpy)
    ideal = np.floor(x.astype(np.float64) / other.astype(np.float64))
    if dtype is Dtype.FLOAT32:
        assert (quotient != ideal).any()
    assert passes(one, quotient)
    assert not passes(one, (quotient.astype(np.float32) + 1).astype(dtype.numpy))
    assert not passes(one, np.trunc(x.astype(np.float32) / y).astype(dtype.numpy))


def test_terms_that_float32_cannot_tell_apart_are_rounded_alike() -> None:
    x = np.random.default_rng(0).standard_normal((8, 300)).astype(np.float32)
    x[:, 0] = 2.0**50
    one = case_of(lambda x: mx.var(x, axis=-1), x)
    mean = np.cumsum(x, axis=1)[:, -1:] / np.float32(300)
    square = np.cumsum((x - mean) ** 2, axis=1)[:, -1] / np.float32(300)
    assert passes(one, square)
    assert not passes(one, square * np.float32(1 + 1e-4))


SIGNS = np.where(np.random.default_rng(3).random((4, 1 << 17)) < 0.5, -1, 1).astype(np.float32)


def mean_of_rows(x: mx.array) -> mx.array:
    return mx.mean(x, axis=-1)


@pytest.mark.parametrize("stride", [1, 32, 256, 4096])
def test_a_long_mean_of_signs_is_right_in_any_order_and_of_scaled_terms(stride: int) -> None:
    x = SIGNS * np.float32(1.3137)
    one = case_of(mean_of_rows, x)
    terms = x.reshape(4, -1, stride).transpose(0, 2, 1).reshape(4, -1)
    for factor in (np.float32(1), np.float32(1 / 3)):
        total = np.cumsum(terms * factor, axis=1)[:, -1]
        assert passes(one, (total / np.float32(x.shape[1]) / factor).astype(np.float32))


@pytest.mark.parametrize("times", [0, 2])
def test_a_long_mean_of_signs_shows_a_column_that_counts_otherwise(times: int) -> None:
    one = case_of(mean_of_rows, SIGNS)
    changed = SIGNS.astype(np.float64)
    changed[:, 70_001] *= times
    assert not passes(one, changed.mean(axis=1).astype(np.float32))


def test_a_long_mean_shows_terms_that_were_cut_to_fewer_bits() -> None:
    random = np.random.default_rng(4)
    x = draw(Distribution.SIGNS, (4, 1 << 17), Dtype.FLOAT32, random)
    one = case_of(mean_of_rows, x)
    for stride in (1, 32, 4096):
        terms = x.reshape(4, -1, stride).transpose(0, 2, 1).reshape(4, -1)
        for factor in (np.float32(1), np.float32(1 / 3)):
            total = np.cumsum(terms * factor, axis=1)[:, -1]
            assert passes(one, (total / np.float32(x.shape[1]) / factor).astype(np.float32))
    truncated = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    for cut in (x.astype(np.float16), x.astype(ml_dtypes.bfloat16), truncated):
        assert not passes(one, cut.astype(np.float64).mean(axis=1).astype(np.float32))


@pytest.mark.parametrize(
    "x",
    [
        np.sort(SIGNS, axis=1),
        np.resize(np.array([1, -1], np.float32), SIGNS.shape),
        np.ones_like(SIGNS),
    ],
    ids=["sorted", "alternating", "equal"],
)
def test_a_long_mean_of_ones_in_some_order_may_be_off_as_others_are(x: AnyArray) -> None:
    lanes = np.cumsum(x.reshape(4, -1, 32), axis=1, dtype=np.float32)[:, -1]
    far = np.abs(x).mean(axis=1) * 2.0**-24 * 600
    one = case_of(mean_of_rows, x)
    assert passes(one, (lanes.sum(axis=1) / x.shape[1] + far).astype(np.float32))


def test_a_serial_sum_of_a_long_ramp_is_right() -> None:
    ramp = np.resize(np.arange(2048, dtype=np.float32), (2, 50_001))
    one = case_of(lambda x: mx.sum(x, axis=-1), ramp)
    serial = np.cumsum(ramp, axis=1)[:, -1]
    assert np.abs(serial - ramp.sum(axis=1, dtype=np.float64)).max() > 2000
    assert passes(one, serial)
    assert not passes(one, serial - np.float32(60_000))


def test_equal_terms_may_all_be_rounded_alike_behind_a_few_large_ones() -> None:
    x = np.full((2, 2048), 9.48e-6, np.float32)
    x[:, :22] = np.random.default_rng(5).uniform(1.2, 1.8, (2, 22))
    one = case_of(mean_of_rows, x)
    serial = np.cumsum(x, axis=1)[:, -1] / np.float32(2048)
    assert np.abs(serial / x.mean(axis=1, dtype=np.float64) - 1).max() > 1700 * 2.0**-24
    assert passes(one, serial)
    assert not passes(one, serial * np.float32(1.0005))


def beside_one(terms: int, share: float, place: int) -> NDArray[np.float32]:
    """Return rows of one and of many small terms, of a share of the distance of neighbours of 1."""
    random = np.random.default_rng(6)
    x = share * 2.0**-23 * random.uniform(0.95, 1.05, (2, terms))
    x[:, place] = 1
    return x.astype(np.float32)


@pytest.mark.parametrize("place", [0, 700])
@pytest.mark.parametrize("share", [0.4, 0.7])
@pytest.mark.parametrize("function", [mx.sum, mx.mean, mx.cumsum])
def test_small_terms_may_all_be_rounded_one_way_beside_a_large_one(
    function: Callable[..., mx.array], share: float, place: int
) -> None:
    x = beside_one(1024, share, place)
    one = case_of(lambda x: function(x, axis=-1), x)
    serial = np.cumsum(x, axis=-1)
    if function is not mx.cumsum:
        serial = serial[:, -1] / np.float32(1024 if function is mx.mean else 1)
    exact = one.expected_outputs[0].expected
    assert passes(one, serial)
    assert not passes(one, (exact + 6 * (serial - exact)).astype(np.float32))


def test_running_sums_before_a_large_term_lose_nothing_beside_it() -> None:
    x = beside_one(1024, 0.4, 700)
    one = case_of(lambda x: mx.cumsum(x, axis=-1), x)
    limits = one.expected_outputs[0].tolerance_at(np.arange(2048)).reshape(2, 1024)
    assert (limits[:, :700] < 1e-4 * np.cumsum(x, axis=-1)[:, :700]).all()


def test_zeros_among_the_terms_of_a_sum_allow_it_nothing() -> None:
    x = np.zeros((2, 4096), np.float32)
    x[:, 7] = 3.0
    one = case_of(mean_of_rows, x)
    exact = np.full(2, 3.0 / 4096, np.float32)
    assert passes(one, exact)
    assert not passes(one, exact * np.float32(1 + 2e-6))


@pytest.mark.parametrize("made_by", [mx.prod, mx.cumprod])
def test_a_product_with_a_factor_that_is_nan_is_nan_and_nothing_else(
    made_by: Callable[..., mx.array],
) -> None:
    x = np.ones((2, 5), np.float32)
    x[0, 2] = np.nan
    graph = canonicalize(capture(lambda a: made_by(mx.tanh(a), axis=-1), mx.array(x)))
    (tracked,) = analyse(graph, [x])
    assert tracked.error is not None
    is_nan = np.isnan(tracked.values)
    assert is_nan.any()
    assert np.all(tracked.error[is_nan] == 0)


def log_softmax(x: mx.array) -> mx.array:
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def entropy(x: mx.array) -> mx.array:
    return -mx.sum(mx.exp(log_softmax(x)) * log_softmax(x), axis=-1)


def weighted(x: mx.array) -> mx.array:
    weights = mx.cos(mx.arange(x.shape[1] * 4, dtype=mx.float32)).reshape(x.shape[1], 4)
    return mx.exp(log_softmax(x)) @ mx.abs(weights)


@pytest.mark.parametrize("function", [entropy, weighted])
def test_terms_of_a_sum_may_all_be_off_by_what_their_row_has_in_common(
    function: Callable[[mx.array], mx.array],
) -> None:
    random = np.random.default_rng(6)
    x = (random.standard_normal((8, 4000)) - 2e5).astype(np.float32)
    one = case_of(function, x)
    peak = x.max(axis=1, keepdims=True)
    total = np.log(np.exp(x - peak).sum(axis=1, keepdims=True)) + peak
    logarithms = (x - total.astype(np.float32)).astype(np.float32)
    weights = np.exp(logarithms)
    if function is entropy:
        found = -(weights * logarithms).sum(axis=1)
    else:
        columns = np.abs(np.cos(np.arange(16_000, dtype=np.float32))).reshape(4000, 4)
        found = weights @ columns
    assert np.abs(weights.sum(axis=1) - 1).max() > 1e-3
    assert passes(one, found.astype(np.float32))
    assert not passes(one, (found * np.float32(1.05)).astype(np.float32))


def test_an_error_in_common_cancels_where_terms_lie_on_both_sides_of_it() -> None:
    random = np.random.default_rng(7)
    x = (random.standard_normal((8, 4000)) + 100).astype(np.float32)
    one = case_of(lambda a: mx.var(a, axis=-1), x)
    tolerance = one.expected_outputs[0].tolerance_at(np.arange(8))
    assert (tolerance < 1e-3).all()
