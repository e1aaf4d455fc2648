"""Cases and suites: what is drawn, what is dropped, what proves something."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.reference import FUNCTIONS
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import draw
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.shape import hidden_graphs, visible_graphs
from kernelwright.evaluator.inputs.suite import visible_suite
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.evaluator.inputs.trivial_answers import MEAN, trivial_answers
from kernelwright.evaluator.inputs.value_domain import (
    accumulation_length,
    domains_of,
    has_jump_after_rounding,
)
from kernelwright.evaluator.oracle.reference import Reference, judge, prepare
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.plan.partition import partition

CONFIG = EvaluatorConfig(secret="tests")


def test_a_case_is_drawn_alike_everywhere_and_otherwise_under_another_secret() -> None:
    case = Case(task_of("softmax").graph, Distribution.NORMAL)
    first, again, other = case.inputs("a"), case.inputs("a"), case.inputs("b")
    assert first[0].tobytes() == again[0].tobytes()
    assert first[0].tobytes() != other[0].tobytes()


def test_indices_stay_inside_what_they_index() -> None:
    case = Case(task_of("cross_entropy").graph, Distribution.NORMAL)
    target = case.inputs("a")[1]
    assert domains_of(case.graph)[1].index_limit == 70
    assert 0 <= target.min() <= target.max() < 70


@pytest.mark.parametrize("secret", "abcdefgh")
def test_the_first_and_the_last_index_are_always_drawn(secret: str) -> None:
    alike = (Distribution.CONSTANT, Distribution.TIED, Distribution.ZERO, Distribution.EXTREME)
    # Indices in an order of their own, as all that are even, hold one end or none.
    for distribution in set(Distribution) - {*alike, Distribution.STRUCTURED}:
        target = Case(task_of("cross_entropy").graph, distribution).inputs(secret)[1]
        assert {0, 69} <= set(target.tolist())


def test_an_index_is_known_behind_a_selection() -> None:
    def chosen(table: mx.array, rows: mx.array) -> mx.array:
        return mx.take(table, mx.where(rows < 5, rows, 0), axis=0)

    graph = canonicalize(capture(chosen, mx.zeros((9, 4)), mx.zeros((6,), mx.int32)))
    assert domains_of(graph)[1].index_limit == 9


@pytest.mark.parametrize("tokens", [1, 2, 16])
@pytest.mark.parametrize("is_packed", [False, True])
def test_chosen_experts_are_drawn_among_all_of_them(tokens: int, is_packed: bool) -> None:
    def experts(x: mx.array, w: mx.array, i: mx.array) -> mx.array:
        if is_packed:
            return mx.gather_qmm(x, *mx.quantize(w, 32, 4), rhs_indices=i, group_size=32, bits=4)
        return mx.gather_mm(x, w, rhs_indices=i)

    arrays = mx.zeros((tokens, 1, 1, 32)), mx.zeros((6, 32, 32)), mx.zeros((tokens, 4), mx.uint32)
    graph = canonicalize(capture(experts, *arrays))
    assert domains_of(graph)[2].index_limit == 6


def test_a_gathered_window_stays_inside_its_array() -> None:
    def windows(x: mx.array, i: mx.array) -> mx.array:
        return mx.slice(x, i, (0,), (3, 4))

    graph = canonicalize(capture(windows, mx.zeros((9, 4)), mx.zeros((1,), mx.int32)))
    assert domains_of(graph)[1].index_limit == 7


def test_both_arms_of_a_selection_of_floats_are_drawn() -> None:
    def safe_log(x: mx.array) -> mx.array:
        return mx.log(mx.where(x > 0, x, 1))

    graph = canonicalize(capture(safe_log, mx.zeros((4, 8))))
    assert not domains_of(graph)[0].is_positive


def test_a_case_whose_indices_leave_their_table_is_dropped() -> None:
    def moved(table: mx.array, rows: mx.array) -> mx.array:
        return mx.take(table, rows * 7 + 1000, axis=0)

    graph = canonicalize(capture(moved, mx.zeros((9, 4)), mx.zeros((6,), mx.int32)))
    tolerances = Task(graph, "task").output_tolerances
    prepared = prepare(Case(graph, Distribution.NORMAL), tolerances, "a")
    assert prepared.dropped.startswith("an index is out of range")


def test_all_may_ask_for_one_index_or_for_two() -> None:
    for distribution, most in ((Distribution.CONSTANT, 1), (Distribution.TIED, 2)):
        target = Case(task_of("cross_entropy").graph, distribution).inputs("a")[1]
        assert len(set(target.tolist())) <= most


@pytest.mark.parametrize("secret", "abcd")
def test_a_mask_has_a_full_row_and_a_row_of_one(secret: str) -> None:
    mask = Case(task_of("masked_softmax").graph, Distribution.NORMAL).inputs(secret)[1]
    assert {1, mask.shape[1]} <= set(mask.sum(axis=1).tolist())


def test_every_input_but_a_scalar_has_exact_zeros() -> None:
    x, weight, bias = Case(task_of("affine").graph, Distribution.SPARSE).inputs("a")
    assert all(0 < (array == 0).mean() < 0.6 for array in (x, weight, bias))


def test_bytes_take_all_their_values() -> None:
    byte = Case(task_of("bytes").graph, Distribution.NORMAL).inputs("a")[0]
    assert (byte.min(), byte.max()) == (0, 255)


@pytest.mark.parametrize("divide", [mx.floor_divide, mx.remainder, mx.divmod])
def test_no_integer_is_divided_by_zero(divide: Callable[..., object]) -> None:
    graph = capture(divide, mx.zeros((40, 50), mx.uint8), mx.zeros((40, 50), mx.uint8))
    dividend, divisor = Case(canonicalize(graph), Distribution.NORMAL).inputs("a")
    assert (dividend == 0).any()
    assert (divisor != 0).all()


def test_a_shift_stays_within_the_word() -> None:
    words = mx.zeros((40, 50), mx.int32)
    case = Case(canonicalize(capture(mx.left_shift, words, words)), Distribution.NORMAL)
    assert set(case.inputs("a")[1].flat) == set(range(32))


def test_a_word_of_64_bits_takes_them_all() -> None:
    graph = capture(lambda x: mx.right_shift(x, mx.array(3, mx.uint64)), mx.zeros(9, mx.uint64))
    assert Case(canonicalize(graph), Distribution.NORMAL).inputs("a")[0].max() == 2**64 - 1


def test_what_is_masked_bit_by_bit_has_all_of_them() -> None:
    graph = canonicalize(capture(lambda x: x & 0x7FFFFFFF, mx.zeros((64, 3), mx.uint32)))
    assert Case(graph, Distribution.NORMAL).inputs("a")[0].max() == 2**32 - 1
    assert visible_suite(Task(graph, "magnitudes"), (), CONFIG).proving >= 10


def test_an_index_that_is_masked_stays_small() -> None:
    def looked_up(table: mx.array, x: mx.array) -> mx.array:
        return table[x & 63]

    graph = canonicalize(capture(looked_up, mx.zeros((64, 3)), mx.zeros((50,), mx.int32)))
    assert np.abs(Case(graph, Distribution.NORMAL).inputs("a")[1]).max() <= 300


def below(x: mx.array) -> mx.array:
    return x < 0.25


def beyond(x: mx.array) -> mx.array:
    return mx.abs(x) >= 0.25


@pytest.mark.parametrize("fn", [below, beyond])
def test_numbers_that_a_task_compares_with_are_drawn(fn: Callable[..., mx.array]) -> None:
    graph = canonicalize(capture(fn, mx.zeros((20, 30))))
    for distribution in (Distribution.TIED, Distribution.MIXED):
        assert 0.25 in Case(graph, distribution).inputs("a")[0]


def test_integers_are_drawn_however_large_what_they_are_compared_with() -> None:
    graph = canonicalize(capture(lambda x: x == 5_000_000_000, mx.zeros((20,), mx.int64)))
    assert 5_000_000_000 in Case(graph, Distribution.TIED).inputs("a")[0]


def appended(cache: mx.array, row: mx.array, place: mx.array) -> mx.array:
    return mx.slice_update(cache, row[None], place, axes=(0,))


def window(x: mx.array, place: mx.array) -> mx.array:
    return mx.slice(x, place, axes=(0, 1), slice_size=(4, 3))


@pytest.mark.parametrize(
    ("fn", "shapes", "places"),
    [(appended, [(20, 6), (6,)], 20), (window, [(9, 12)], 6)],
)
@pytest.mark.parametrize("distribution", Distribution)
def test_a_window_starts_where_all_of_it_lies_inside(
    fn: Callable[..., mx.array], shapes: list[tuple[int, ...]], places: int, distribution: str
) -> None:
    axes = 3 - len(shapes)
    arrays = [*(mx.zeros(s) for s in shapes), mx.zeros((axes,), mx.int32)]
    case = Case(canonicalize(capture(fn, *arrays)), Distribution(distribution))
    start = case.inputs("a")[-1]
    assert 0 <= start.min() <= start.max() < places


def test_mlx_is_not_asked_for_a_window_that_reaches_out() -> None:
    def paged(x: mx.array, page: mx.array) -> mx.array:
        return mx.slice(x, page * 4, axes=(0,), slice_size=(4, 6))

    graph = canonicalize(capture(paged, mx.zeros((20, 6)), mx.zeros((1,), mx.int32)))
    prepared = prepare(
        Case(graph, Distribution.NORMAL), Task(graph, "paged").output_tolerances, "a"
    )
    assert "an index is out of range" in prepared.dropped


def shifted(x: mx.array, offset: mx.array) -> mx.array:
    rows, columns = mx.arange(8)[:, None], mx.arange(x.shape[1])[None, :]
    return mx.where(rows + offset >= columns, x, 0)


def cut(x: mx.array, length: mx.array) -> mx.array:
    return mx.where(mx.arange(x.shape[1]) < length, x, 0)


def counted_down(x: mx.array, end: mx.array) -> mx.array:
    return mx.where(end - mx.arange(x.shape[1]) > mx.arange(3)[:, None], x[:3], 0)


def behind_a_window(x: mx.array, width: mx.array) -> mx.array:
    apart = mx.arange(8)[:, None] - mx.arange(x.shape[1])[None, :]
    return mx.where((apart >= 0) & (apart < width), x, 0)


def in_pages(x: mx.array, pages: mx.array) -> mx.array:
    return mx.where(mx.arange(x.shape[1]) < pages * 4, x, 0)


def by_blocks(x: mx.array, block: mx.array) -> mx.array:
    return mx.where(mx.arange(x.shape[1]) // 8 <= block, x, 0)


def held_against_one_number(x: mx.array, n: mx.array) -> mx.array:
    return mx.where(n > 3, x, 0)


@pytest.mark.parametrize(
    ("fn", "span"),
    [
        (shifted, (-7, 39)),
        (cut, (0, 39)),
        (counted_down, (0, 41)),
        (behind_a_window, (-39, 7)),
        (in_pages, (0, 10)),
        (by_blocks, (0, 4)),
        (held_against_one_number, None),
    ],
)
def test_an_integer_is_drawn_where_positions_tell_it_apart(
    fn: Callable[[mx.array, mx.array], mx.array], span: tuple[int, int] | None
) -> None:
    graph = canonicalize(capture(fn, mx.zeros((8, 40)), mx.array(0)))
    assert domains_of(graph)[1].span == span


@pytest.mark.parametrize("secret", "abcd")
def test_lengths_end_at_any_position_and_beyond_all(secret: str) -> None:
    graph = canonicalize(capture(cut, mx.zeros((8, 40)), mx.array(0)))
    drawn = {int(Case(graph, d).inputs(secret)[1]) for d in Distribution}
    assert {0, 39} <= drawn
    assert len(drawn & set(range(1, 39))) > 2
    assert min(drawn) < 0 < 40 <= max(drawn)


def test_bytes_that_are_exponents_are_drawn_again_where_they_overflow() -> None:
    def scaled(digits: mx.array, exponents: mx.array) -> mx.array:
        scales = mx.power(2.0, exponents.astype(mx.float32) - 127)
        return (digits & 7).astype(mx.float32) * scales[:, :, None]

    digits, exponents = mx.zeros((20, 4, 32), mx.uint8), mx.zeros((20, 4), mx.uint8)
    graph = canonicalize(capture(scaled, digits, exponents))
    suite = visible_suite(Task(graph, "scaled"), (), CONFIG)
    assert suite.proving >= 15


def test_segments_meet_their_like() -> None:
    def same(x: mx.array, of_row: mx.array, of_column: mx.array) -> mx.array:
        return mx.where(of_row[:, None] == of_column[None, :], x, 0)

    segments = mx.zeros((30,), mx.int32)
    graph = canonicalize(capture(same, mx.zeros((30, 30)), segments, segments))
    rows, columns = Case(graph, Distribution.NORMAL).inputs("a")[1:]
    assert 0.1 < (rows[:, None] == columns[None, :]).mean() < 0.5


def test_a_number_that_a_type_does_not_hold_harms_nobody() -> None:
    graph = canonicalize(capture(lambda x: x.astype(mx.int32) == -7, mx.zeros((9,), mx.uint8)))
    assert Case(graph, Distribution.TIED).inputs("a")[0].dtype == np.uint8


@pytest.mark.parametrize("secret", "abc")
def test_floats_may_be_added_up_one_after_the_other_as_mlx_does(secret: str) -> None:
    def added_up(x: mx.array) -> mx.array:
        return mx.cumsum(x, axis=-1)

    graph = canonicalize(capture(added_up, mx.zeros((4, 4096))))
    case = Case(graph, Distribution.CONSTANT)
    prepared = prepare(case, Task(graph, "added_up").output_tolerances, secret)
    sums = np.cumsum(prepared.inputs[0], axis=-1, dtype=np.float32)
    assert prepared.dropped or judge(prepared, [sums])[0].is_acceptable


def test_a_special_case_holds_a_nan_and_both_infinities() -> None:
    for seed in range(200):
        drawn = draw(Distribution.SPECIAL, (2, 3), Dtype.FLOAT32, np.random.default_rng(seed))
        assert np.isnan(drawn).sum() == 1
        assert {np.inf, -np.inf} <= set(drawn.flat)


def test_halves_are_drawn_where_they_are_rounded() -> None:
    graph = canonicalize(capture(mx.round, mx.zeros((20, 30))))
    assert {-0.5, 0.5, 2.5} <= set(Case(graph, Distribution.TIED).inputs("a")[0].flat)


@pytest.mark.parametrize(
    ("dtype", "last_half"), [(mx.float32, 2.0**22), (mx.float16, 512), (mx.bfloat16, 64)]
)
def test_the_last_halves_and_odd_numbers_of_a_format_are_rounded(
    dtype: mx.Dtype, last_half: float
) -> None:
    graph = canonicalize(capture(mx.round, mx.zeros((20, 30), dtype)))
    drawn = np.asarray(Case(graph, Distribution.TIED).inputs("a")[0], np.float32)
    assert {last_half + 0.5, -last_half - 1.5, 2 * last_half + 1} <= set(drawn.flat)
    assert np.isfinite(drawn).all()


@pytest.mark.parametrize(("part", "focus"), [(0, 0), (1, 1)])
def test_products_of_what_is_not_finite_meet_rows_and_columns_of_zeros(
    part: int, focus: int
) -> None:
    graph = canonicalize(capture(lambda x, y: x @ y, mx.zeros((24, 20)), mx.zeros((20, 16))))
    arrays = Case(graph, Distribution.SPECIAL, part=part).inputs("a")
    other = np.asarray(arrays[1 - focus])
    assert not np.isfinite(arrays[focus]).all()
    assert (other == 0).all(axis=1).any()
    assert (other == 0).all(axis=0).any()
    assert ((other != 0).sum(axis=1) == 1).any()


def test_a_large_product_has_a_case_in_which_the_second_operand_is_not_finite() -> None:
    graph = canonicalize(capture(lambda x, y: x @ y, mx.zeros((5000, 64)), mx.zeros((64, 16))))
    cases = visible_cases(graph, (), CONFIG)
    assert any(not np.isfinite(case.inputs("a")[1]).all() for case in cases)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_nan_have_several_payloads(dtype: mx.Dtype) -> None:
    graph = canonicalize(capture(mx.isnan, mx.zeros((20, 30), dtype)))
    (drawn,) = Case(graph, Distribution.NAN).inputs("a")
    bits = drawn.view(np.uint32 if drawn.itemsize == 4 else np.uint16)
    assert len(set(bits[np.isnan(drawn)].tolist())) >= 4


def test_complex_numbers_are_drawn_beside_others_in_every_case() -> None:
    def scaled(z: mx.array, x: mx.array) -> mx.array:
        return mx.real(z) * x

    graph = canonicalize(capture(scaled, mx.zeros((8, 6), mx.complex64), mx.zeros((8, 6))))
    for case in visible_cases(graph, (), CONFIG):
        assert case.inputs("a")[0].dtype == np.complex64


def mean_loss(logits: mx.array, target: mx.array) -> mx.array:
    chosen = mx.take_along_axis(logits, mx.maximum(target, 0)[:, None], axis=1)
    return mx.where((target != -100)[:, None], chosen, 0)


def test_an_index_behind_a_bound_takes_its_table_and_what_is_left_out() -> None:
    graph = canonicalize(capture(mean_loss, mx.zeros((40, 10)), mx.zeros((40,), mx.int32)))
    assert domains_of(graph)[1].index_limit == 10
    target = Case(graph, Distribution.MIXED).inputs("a")[1].astype(np.int64)
    assert {-100, 0, 9} <= set(target.tolist())
    assert target.max() == 9, "no bound stands above"
    assert (target < 0).mean() < 0.5


def test_a_bare_index_or_divisor_takes_nothing_that_it_may_not_be() -> None:
    def chosen(table: mx.array, rows: mx.array) -> mx.array:
        return mx.where(rows == -1, 0, mx.take(table, rows) // rows)

    graph = canonicalize(capture(chosen, mx.zeros(9, mx.int32), mx.zeros(6, mx.int32)))
    assert domains_of(graph)[1].landmarks == ()


def test_integers_reach_beyond_16_bits_and_floats() -> None:
    for distribution in (Distribution.WIDE, Distribution.MIXED):
        x = Case(task_of("totals").graph, distribution).inputs("a")[0]
        assert np.abs(x).max() > 2**24
    assert np.abs(Case(task_of("totals").graph, Distribution.NORMAL).inputs("a")[0]).max() < 301


def test_what_an_index_is_computed_of_stays_small() -> None:
    def moved(table: mx.array, rows: mx.array) -> mx.array:
        return mx.take(table, rows * 2 + 1, axis=0)

    graph = canonicalize(capture(moved, mx.zeros((900, 4)), mx.zeros((60,), mx.int32)))
    assert np.abs(Case(graph, Distribution.WIDE).inputs("a")[1]).max() <= 300


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("position", [0, 1])
def test_a_layout_changes_strides_and_no_value(layout: Layout, position: int) -> None:
    case = Case(task_of("strided").graph, Distribution.NORMAL, layout)
    dense = case.inputs("a")[position]
    placed = layout.place(dense, position)
    np.testing.assert_array_equal(placed, dense)
    assert (placed.strides == dense.strides) is (layout is Layout.DENSE)


def test_no_two_inputs_lie_alike_in_a_varied_layout() -> None:
    array = np.ones((4, 6), np.float32)
    strides = {Layout.VARIED.place(array, position).strides for position in range(3)}
    assert len(strides) == 3
    assert {Layout.VARIED.place(np.array(1.0), p).shape for p in range(3)} == {()}


@pytest.mark.parametrize("name", sorted(bases()))
@pytest.mark.sampled(19)
def test_most_cases_of_every_task_prove_something(name: str) -> None:
    task = task_of(name)
    suite = visible_suite(task, (), CONFIG)
    assert suite.proving >= (10 if task.graph.element_count <= CONFIG.case_elements else 2)
    assert suite.unseen_inputs == ()


def test_a_case_that_a_trivial_answer_passes_proves_nothing() -> None:
    case = Case(task_of("layer_norm").graph, Distribution.DENORMAL)
    task = task_of("softmax")
    constant = Case(task.graph, Distribution.CONSTANT)
    assert (
        prepare(constant, task.output_tolerances, "a").weakness == "its mean would pass as output 0"
    )
    assert case.inputs("a")[0].any()


def test_a_task_without_content_proves_nothing() -> None:
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((4, 1))))
    assert not visible_suite(Task(graph, "one"), (), CONFIG).is_proof


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_signs_need_no_digits_however_they_are_scaled(dtype: mx.Dtype) -> None:
    x = mx.zeros((8, 16), dtype)
    graph = canonicalize(capture(lambda x: mx.sign(x) * 2, x))
    suite = visible_suite(Task(graph, "signs"), (), CONFIG)
    assert suite.is_proof
    assert suite.proving >= 10


def test_whole_numbers_times_a_fraction_have_digits_to_lose() -> None:
    graph = canonicalize(capture(lambda x: mx.round(x) * 0.1, mx.zeros((8, 16))))
    suite = visible_suite(Task(graph, "tenths"), (), CONFIG)
    assert suite.is_proof
    assert not any(reference.exact for reference in suite.references if reference.proves)


def test_outputs_may_be_told_from_trivial_answers_by_different_cases() -> None:
    def best(x: mx.array) -> tuple[mx.array, mx.array]:
        near = mx.where(mx.max(x, axis=-1, keepdims=True) - x > 0.1, -mx.inf, x)
        return mx.argmax(x, axis=-1), mx.softmax(near, axis=-1).max(axis=-1)

    graph = canonicalize(capture(best, mx.zeros((1, 4))))
    assert visible_suite(Task(graph, "best"), (), CONFIG).is_proof


def test_a_mean_of_complex_numbers_keeps_both_parts() -> None:
    expected = np.array([1 + 2j, 3 - 6j, np.nan])
    answers = dict(trivial_answers(TensorType((3,), Dtype.COMPLEX64), expected, ()))
    assert answers[MEAN](slice(0, 3)).tolist() == [2 - 2j] * 3


def test_one_number_everywhere_is_no_trivial_mean() -> None:
    graph = canonicalize(capture(lambda x: mx.broadcast_to(mx.cos(x), (8,)), mx.zeros((1,))))
    assert visible_suite(Task(graph, "cosine"), (), CONFIG).is_proof


@pytest.mark.parametrize(
    ("function", "is_positive"),
    [
        (lambda x: mx.rsqrt(x.mean(axis=-1) + 1e-5), True),
        (lambda x: mx.log(x.sum(axis=-1) * 2), True),
        (lambda x: mx.rsqrt(mx.square(x).mean(axis=-1) + 1e-5), False),
        (lambda x: mx.log(mx.exp(x) + 1), False),
    ],
)
def test_what_a_root_or_logarithm_is_taken_of_is_positive(
    function: Callable[[mx.array], mx.array], is_positive: bool
) -> None:
    graph = canonicalize(capture(function, mx.zeros((4, 8))))
    assert domains_of(graph)[0].is_positive is is_positive


def test_hidden_shapes_follow_the_secret_and_differ_from_the_visible() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    visible = {g.fingerprint for g in visible_graphs(task, program, CONFIG)}
    hidden = [g.fingerprint for g in hidden_graphs(task, program, CONFIG)]
    other = EvaluatorConfig(secret="other")
    assert not visible & set(hidden)
    assert hidden != [g.fingerprint for g in hidden_graphs(task, program, other)]


def test_a_specialised_program_is_judged_at_its_own_shape_only() -> None:
    task, program = task_of("rotate"), bases()["rotate"].program
    assert visible_graphs(task, program, CONFIG) == ()


def test_sums_are_measured_by_their_length() -> None:
    assert accumulation_length(task_of("mean").graph) == 1025
    assert accumulation_length(task_of("swiglu").graph) == 1


def test_a_jump_after_rounding_is_seen() -> None:
    with mx.stream(mx.cpu):
        fragile = capture(lambda x: mx.floor(x * 3.3), mx.zeros((4,)))
        exact = capture(mx.floor, mx.zeros((4,)))
    assert (has_jump_after_rounding(fragile), has_jump_after_rounding(exact)) == (True, False)


def half_cosine(x: mx.array, y: mx.array) -> mx.array:
    """Overflow in half precision for ordinary data: MLX itself fails there."""
    dot = mx.sum(x * y, axis=-1, keepdims=True)
    lengths = mx.sum(x * x, axis=-1, keepdims=True) * mx.sum(y * y, axis=-1, keepdims=True)
    return dot / mx.maximum(mx.sqrt(lengths), 1e-6)


def half_softmax(x: mx.array, keep: mx.array) -> mx.array:
    """Lose in half-precision sums what a lower precision would lose."""
    return mx.softmax(mx.where(keep, x, -mx.inf), axis=-1)


def half_quantize(x: mx.array) -> mx.array:
    """Round to integers what was rounded to half before."""
    scale = mx.max(mx.abs(x), axis=-1, keepdims=True) / 127
    return mx.round(x / scale).astype(mx.int8)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (half_cosine, (mx.zeros((4, 1024), mx.float16),) * 2),
        (half_softmax, (mx.zeros((2, 8, 256), mx.float16), mx.zeros((8, 256), mx.bool_))),
        (half_quantize, (mx.zeros((4, 256), mx.float16),)),
    ],
)
def test_a_large_task_whose_usual_cases_prove_nothing_gets_others(
    function: Callable[..., mx.array], arrays: tuple[mx.array, ...]
) -> None:
    with mx.stream(mx.cpu):
        task = Task(canonicalize(capture(function, *arrays)), "task")
    suite = visible_suite(task, [], CONFIG.model_copy(update={"case_elements": 1}))
    assert suite.is_proof


@pytest.mark.parametrize(("most", "is_redrawn"), [(1 << 18, True), (1, False)])
def test_a_case_of_many_elements_is_not_drawn_again(
    monkeypatch: pytest.MonkeyPatch, most: int, is_redrawn: bool
) -> None:
    attempts: set[int] = set()

    def counted(case: Case, tolerances: Sequence[Tolerance], secret: str) -> Reference:
        attempts.add(case.attempt)
        return prepare(case, tolerances, secret)

    monkeypatch.setattr("kernelwright.evaluator.inputs.suite.prepare", counted)
    # Of constant rows the mean is right, however often they are drawn.
    task = Task(canonicalize(capture(mx.softmax, mx.zeros((2, 8, 256)))), "task")
    visible_suite(task, [], CONFIG.model_copy(update={"case_elements": most}))
    assert ({1, 2} <= attempts) is is_redrawn


def test_a_large_shape_runs_once_where_smaller_ones_show_the_rest() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    graphs = visible_graphs(task, program, CONFIG)
    suite = visible_suite(task, graphs, CONFIG.model_copy(update={"large_elements": 1}))
    own = [r for r in suite.references if r.case.graph is task.graph]
    assert any(r.proves for r in own)
    assert len(own) <= 2 < len(suite.references)
    layouts = {r.case.layout for r in suite.references if r.case.graph is not task.graph}
    assert layouts == set(Layout)
    alone = visible_suite(task, [], CONFIG.model_copy(update={"large_elements": 1}))
    kinds = {(r.case.distribution, r.case.layout) for r in alone.references}
    assert {d for d, _ in kinds} >= {Distribution.MIXED, Distribution.NORMAL}
    assert {layout for _, layout in kinds} == {Layout.DENSE, Layout.VARIED}


def test_suites_of_a_task_share_the_cases_that_they_have_in_common() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    one = visible_suite(task, (), CONFIG)
    other = visible_suite(task, visible_graphs(task, program, CONFIG), CONFIG)
    own = {id(r) for r in other.references if r.case.graph is task.graph}
    assert {id(r) for r in one.references} == own


@pytest.mark.parametrize("secret", "abc")
@pytest.mark.parametrize("kind", [Distribution.OFFSET, Distribution.SHIFTED], ids=str)
def test_rows_far_from_zero_are_judged_though_mlx_normalises_them_badly(
    kind: Distribution, secret: str
) -> None:
    task = task_of("layer_norm")
    prepared = prepare(Case(task.graph, kind), task.output_tolerances, secret)
    assert not prepared.dropped


def test_a_task_without_inputs_has_cases_without_arrays() -> None:
    def scaled(x: mx.array) -> mx.array:
        table = mx.cos(mx.arange(8, dtype=mx.float32)[:, None] * mx.arange(16, dtype=mx.float32))
        return mx.softmax(x, axis=-1) @ table

    graph = canonicalize(capture(scaled, mx.zeros((4, 8))))
    (task,) = [Task(t, "table") for r in partition(graph) if not (t := r.extract()).inputs]
    assert visible_suite(task, (), CONFIG).is_proof


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 1 << 17), -1), ((2, 1 << 14), -1), ((1024, 512), None)], ids=str
)
def test_a_case_of_long_sums_shows_each_term(shape: tuple[int, int], axis: int | None) -> None:
    graph = canonicalize(capture(lambda x: mx.mean(x, axis=axis), mx.zeros(shape)))
    kinds = [case.distribution for case in visible_cases(graph, (), EvaluatorConfig())]
    assert kinds.count(Distribution.SIGNS) == 1
    short = canonicalize(capture(lambda x: mx.mean(x, axis=-1), mx.zeros((1024, 512))))
    kinds = [case.distribution for case in visible_cases(short, (), EvaluatorConfig())]
    assert Distribution.SIGNS not in kinds


@pytest.mark.parametrize(("inner", "is_large"), [(64, False), (1 << 14, True)])
def test_products_have_a_case_that_shows_operands_of_halves(inner: int, is_large: bool) -> None:
    graph = canonicalize(capture(mx.matmul, mx.zeros((48, inner)), mx.zeros((inner, 64))))
    cases = visible_cases(graph, (), EvaluatorConfig())
    (case,) = (c for c in cases if c.distribution is Distribution.CUT)
    assert (case.layout is Layout.VARIED) is is_large
    for x in case.inputs("secret"):
        # All are rounded down, so that their errors add up.
        assert np.less(x.astype(np.float16), x).all()


@pytest.mark.parametrize("dtype", [Dtype.UINT8, Dtype.INT8, Dtype.INT16], ids=str)
def test_long_sums_of_integers_leave_what_a_float_holds(dtype: Dtype) -> None:
    kind = getattr(mx, dtype.value)
    graph = canonicalize(capture(lambda x: mx.sum(x, axis=-1), mx.zeros((4, 1 << 18), kind)))
    cases = visible_cases(graph, (), EvaluatorConfig())
    (case,) = (c for c in cases if c.distribution is Distribution.SIGNS)
    totals = case.inputs("secret")[0].sum(axis=1, dtype=np.int64)
    assert (totals.astype(np.float32).astype(np.int64) != totals).any()


@pytest.mark.parametrize("shape", [(6, 64), (700, 520)], ids=str)
def test_what_all_elements_decide_together_is_decided_both_ways(shape: tuple[int, int]) -> None:
    norms = {True: 0, False: 0}
    graph = canonicalize(capture(FUNCTIONS["clipped_by_norm"], mx.zeros(shape)))
    for case in visible_cases(graph, (), EvaluatorConfig()):
        norm = float(np.linalg.norm(case.inputs("secret")[0].astype(np.float64)))
        if np.isfinite(norm) and norm > 0:
            norms[norm < 1] += 1
    assert norms[True]
    assert norms[False]
