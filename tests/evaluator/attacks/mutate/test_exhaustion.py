"""Terms that hang on few numbers: which are one for all of these, and which are not."""

from collections.abc import Iterator

import numpy as np
import pytest

from kernelwright.evaluator.attacks.mutate.base import BaseProgram, programs_of, sources
from kernelwright.evaluator.attacks.mutate.symbolic.equality import same_outputs
from kernelwright.evaluator.attacks.mutate.symbolic.exhaustion import always_equal
from kernelwright.evaluator.attacks.mutate.symbolic.memory import number_of
from kernelwright.evaluator.attacks.mutate.symbolic.programs import leave_the_same
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    Value,
    added,
    chosen,
    compared,
    forget,
    integer,
    operation,
    scaled,
    unknown,
)
from kernelwright.ir.graph.dtype import Dtype

_ONE, _HALF, _EIGHTH, _THIRD = 0x3F800000, 0x3F000000, 0x3E000000, 0x3EAAAAAB
_SIGN = 1 << 31


@pytest.fixture(autouse=True)
def _fresh_terms() -> Iterator[None]:
    yield
    forget()


def _read(size: int, name: str = "x") -> Value:
    return unknown("load", name, (), 0, size, low=0, high=(1 << (8 * size)) - 1)


def _wide(kind: str = "half") -> Term:
    return operation("fpext", kind, "float", _read(2))


def _product(factor: int, kind: str = "half", lenience: str = "") -> Term:
    return operation("fmul", lenience, "float", _wide(kind), factor)


def _chosen(condition: Value, a: Value, b: Value) -> Value:
    return number_of(chosen(condition, a, b))


def _rounded(value: Value, kind: str = "half") -> Term:
    return operation("fptrunc", "float", kind, value)


def _cut(value: Value, bits: int) -> Value:
    return integer("and", value, 0xFFFFFFFF >> bits << bits, 32)


def test_what_a_half_holds_is_a_half_again() -> None:
    assert always_equal(_rounded(_wide()), _read(2), "half")
    assert not always_equal(_rounded(_product(_HALF)), _read(2), "half")


@pytest.mark.parametrize(
    ("kind", "bits", "factor", "is_same"),
    [
        ("half", 13, _HALF, True),
        ("half", 14, _HALF, False),
        ("half", 13, _THIRD, False),
        ("bfloat", 16, 0x3F800000, True),
        ("bfloat", 16, _EIGHTH, False),  # Less than the least normal one is not of eight bits.
    ],
)
def test_cutting_a_product_counts_where_it_has_more_bits(
    kind: str, bits: int, factor: int, is_same: bool
) -> None:
    exact = _product(factor, kind)
    assert always_equal(exact, _cut(exact, bits), "float") is is_same


def test_lenient_arithmetic_and_many_numbers_are_not_tried() -> None:
    one, other = _product(_HALF, lenience="contract"), _product(_HALF)
    assert not always_equal(one, other, "float")
    assert not always_equal(added(_read(4), 0, 64), operation("fneg", "", "float", _read(4)))
    assert not always_equal(_rounded(operation("llvm.exp.f32", "", _wide())), _rounded(_wide()))


def test_integers_are_tried_by_their_widths() -> None:
    x, y = _read(1), _read(1, "y")
    high, low = integer("lshr", x, 4, 8), integer("and", x, 15, 8)
    assert always_equal(integer("or", scaled(high, 16, 8), low, 8), x)
    assert not always_equal(integer("or", scaled(high, 8, 8), low, 8), x)
    least = integer("umin", x, y, 8)
    assert always_equal(least, _chosen(compared("ult", x, y, 8), x, y))
    assert not always_equal(least, _chosen(compared("slt", x, y, 8), x, y))


def test_comparisons_know_what_is_no_number() -> None:
    value, zero = _wide(), 0
    not_less = operation("fcmp uge ", "float", value, zero)
    less = operation("fcmp olt ", "float", value, zero)
    assert always_equal(_chosen(not_less, value, zero), _chosen(less, zero, value), "float")
    less_or_lost = operation("fcmp ult ", "float", value, zero)
    assert not always_equal(
        _chosen(not_less, value, zero), _chosen(less_or_lost, zero, value), "float"
    )


def test_operands_decide_where_the_whole_hangs_on_too_much() -> None:
    """A sum of what is read as floats, of which one term is written in two ways."""
    other = operation("fadd", "", "float", _read(4, "y"), _product(_HALF))
    half = operation("fdiv", "", "float", _wide(), 0x40000000)
    one = operation("fadd", "", "float", half, _read(4, "y"))
    third = operation("fadd", "", "float", _product(_THIRD), _read(4, "y"))
    cell = ("buffer 8", (), 0, 4)
    assert same_outputs({cell: one}, {cell: other})
    assert not same_outputs({cell: one}, {cell: third})
    assert not same_outputs({cell: one}, {("buffer 8", (), 4, 4): one})


@pytest.mark.parametrize(
    ("name", "is_same"),
    [("llvm.fabs.f32", True), ("llvm.copysign.f32", True), ("llvm.sqrt.f32", False)],
)
def test_a_sign_that_is_lost_does_not_count(name: str, is_same: bool) -> None:
    x, y = _read(4), _read(4, "y")
    pairs = [(x, y), (y, x)]
    cell = ("buffer 8", (), 0, 4)
    rest = (y,) if "copysign" in name else ()
    one, other = (
        operation(name, "", operation("fsub", "", "float", *pair), *rest) for pair in pairs
    )
    assert same_outputs({cell: one}, {cell: other}) is is_same
    ways = (
        operation("fsub", "", "float", _ONE, x),
        operation("fadd", "", "float", x, _ONE | _SIGN),
    )
    one, other = (operation(name, "", way, *rest) for way in ways)
    assert same_outputs({cell: one}, {cell: other}) is is_same
    turned = operation(name, "", operation("fneg", "", "float", x), *rest)
    assert same_outputs({cell: turned}, {cell: operation(name, "", x, *rest)}) is is_same


def test_a_square_has_no_sign_and_a_product_has_one() -> None:
    x, y = _read(4), _read(4, "y")
    one, other = (operation("fsub", "", "float", *way) for way in ((x, y), (y, x)))
    lenient = operation("fsub", "contract", "float", y, x)
    cell = ("buffer 8", (), 0, 4)

    def is_same(a: Term, b: Term, c: Term, d: Term) -> bool:
        first, second = (operation("llvm.fma.f32", "", *pair, x) for pair in ((a, b), (c, d)))
        return same_outputs({cell: first}, {cell: second})

    assert is_same(one, one, other, other)
    assert not is_same(one, one, lenient, lenient)
    assert not is_same(one, one, one, other)
    # Where both are zero, a difference is so with one sign, and the other factor's sign counts.
    w = operation("fneg", "", "float", y)
    assert not is_same(one, operation("fneg", "", "float", w), other, w)


def _greatest(*values: Value) -> Term:
    """Return what `simd_max` gives lanes that have these."""
    published = tuple((lane, ((0, 4, value),)) for lane, value in enumerate(values))
    return operation("lanes", "kw_prebuilt_max_of_float", published, 0, (1 << 32) - 1)


def test_the_greatest_of_halves_is_one_and_a_sum_of_them_is_not() -> None:
    x, y = (operation("fpext", "half", "float", _read(2, name)) for name in "xy")
    one, infinity = 0x3F800000, 0xFF800000
    greatest = _greatest(_chosen(operation("fcmp ogt ", "float", x, infinity), x, infinity), y, one)
    cell = ("buffer 8", (), 0, 4)

    def is_same(value: Term, kind: str) -> bool:
        again = operation("fpext", kind, "float", _rounded(value, kind))
        return same_outputs({cell: value}, {cell: again})

    assert is_same(greatest, "half")
    assert not is_same(greatest, "bfloat")
    assert not is_same(_greatest(x, _THIRD), "half")
    assert not is_same(_greatest(x, _read(4)), "half")
    assert not is_same(operation("fadd", "", "float", x, y), "half")


def test_upper_halves_of_words_are_bfloats() -> None:
    pair, cell = _read(4), ("buffer 8", (), 0, 4)
    upper = integer("and", pair, 0xFFFF0000, 32)
    greatest = operation("llvm.maxnum.f32", "", upper, _greatest(scaled(pair, 1 << 16, 32)))
    for value, kind, is_same in ((greatest, "bfloat", True), (greatest, "half", False)):
        again = operation("fpext", kind, "float", _rounded(value, kind))
        assert same_outputs({cell: value}, {cell: again}) is is_same


def _small(name: str, dtype: Dtype) -> BaseProgram:
    source = next(s for s in sources("small") if (s.name, s.dtype) == (name, dtype))
    return next(iter(programs_of(source, np.random.default_rng(1), 64)))


def _truncated(base: BaseProgram, kept: str) -> bool:
    """Say whether results that are cut before they are rounded are proven to be the same."""
    kernel = base.program.kernels[0]
    assert "(float(x[" in kernel.source
    cut = kernel.source.replace("(float(x[", "(as_type<float>(as_type<uint>(float(x[")
    cut = cut.replace("* 0.125f)", f"* 0.125f) & {kept}))")
    mutant = kernel.model_copy(update={"source": cut})
    changed = base.program.model_copy(update={"kernels": (mutant,)})
    return leave_the_same(base.task, base.program, changed)


@pytest.mark.parametrize(
    ("dtype", "kept", "is_same"),
    [(Dtype.FLOAT16, "0xFFFFE000u", True), (Dtype.BFLOAT16, "0xFFFF0000u", False)],
)
def test_an_eighth_of_a_half_is_cut_without_loss(dtype: Dtype, kept: str, is_same: bool) -> None:
    assert _truncated(_small("transpose_scale", dtype), kept) is is_same
