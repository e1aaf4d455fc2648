"""Launch arithmetic is evaluated exactly, and refuses everything else in a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import InputError
from kernelwright.metal.extent import evaluate, symbols_in

SYMBOLS = {"rows": 7, "columns": 100}


@pytest.mark.parametrize(
    ("extent", "value"),
    [
        (12, 12),
        ("rows", 7),
        ("rows * 32", 224),
        ("ceildiv(columns, 32) * 32", 128),
        ("align(columns, 32)", 128),
        ("min(columns, 64) + max(rows, 3)", 71),
        ("(rows + 1) // 2 - 1 % 2", 3),
        ("10 - 3 - 2", 5),
    ],
)
def test_extent_has_the_value_of_its_arithmetic(extent: int | str, value: int) -> None:
    assert evaluate(extent, SYMBOLS) == value


@given(st.integers(0, 99), st.integers(1, 99), st.integers(1, 99))
def test_extent_agrees_with_python(a: int, b: int, c: int) -> None:
    text = f"{a} * {b} + ({a} - {c}) // {b} % {c}"
    assert evaluate(text, {}) == eval(text)


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        ("rows **", "expected launch arithmetic"),
        ("rows * ", "stuck at 'the end'"),
        ("__import__('os')", "expected launch arithmetic"),
        ("rows.real", "expected launch arithmetic"),
        ("depth * 2", "names 'depth'; the known dimensions are: columns, rows"),
        ("rows // 0", "divides by zero"),
        ("ceildiv(rows, 0)", "divides by zero"),
        ("rows)", r"stuck at '\)'"),
        ("1+" * 200 + "1", "at most 200 characters"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(extent: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(extent, SYMBOLS)


def test_symbols_leave_out_functions() -> None:
    assert symbols_in("ceildiv(columns, 4) * rows") == {"columns", "rows"}
