"""Open sizes are numbers to decisions and arithmetic over names to what is written."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.metal.extent import evaluate

ROWS, KEYS = 10007, 10009
Arithmetic = Callable[[int, int], int]

ARITHMETIC: list[tuple[Arithmetic, str]] = [
    (lambda r, k: r, "rows"),
    (lambda r, k: r + 0, "rows"),
    (lambda r, k: 3 + r, "rows + 3"),
    (lambda r, k: r - 1, "rows - 1"),
    (lambda r, k: 8 - r, "8 - rows"),
    (lambda r, k: r * k * 4, "keys * rows * 4"),
    (lambda r, k: 2 * (r + 1) - r, "rows + 2"),
    (lambda r, k: r * 64 // 16, "rows * 4"),
    (lambda r, k: -(-r * 64 // 16), "rows * 4"),
    (lambda r, k: r * k * 6 // (k * 2), "rows * 3"),
    (lambda r, k: (r + 2) * (r + 3), "rows * rows + rows * 5 + 6"),
    (lambda r, k: (r * 64 + 5) // 16, "rows * 4"),
    (lambda r, k: r * 48 % (r * 32), "rows * 16"),
    (lambda r, k: (r * 48 + 3) % (r * 32), "rows * 16 + 3"),
    (lambda r, k: (r * k + r - 1) // r, "keys"),
    (lambda r, k: (r * k + r - 1) % r, "rows - 1"),
]


@pytest.mark.parametrize(("arithmetic", "text"), ARITHMETIC)
def test_sums_products_and_exact_quotients_have_a_text(arithmetic: Arithmetic, text: str) -> None:
    found = arithmetic(OpenSize.named("rows", ROWS), OpenSize.named("keys", KEYS))
    assert isinstance(found, OpenSize)
    assert (found.text, f"{found}") == (text, f"@{text}@")
    for rows, keys in ((ROWS, KEYS), (1, 1), (2, 3), (7, 1), (1, 9)):
        assert evaluate(text, {"rows": rows, "keys": keys}) == arithmetic(rows, keys)


@pytest.mark.parametrize(
    "arithmetic",
    [
        lambda r: r // 2,
        lambda r: r % 4 + 1,
        lambda r: 10**9 // r,
        lambda r: 10**9 % r,
        lambda r: (r * 48 + 16) % (r * 32),
        lambda r: (r * r * 3) // (r * 2),
    ],
)
def test_other_arithmetic_is_a_number_to_decisions_alone(arithmetic: Callable[[int], int]) -> None:
    found = arithmetic(OpenSize.named("rows", ROWS))
    assert found == arithmetic(ROWS)
    with pytest.raises(UnsupportedError, match="by more than a sum"):
        str(found)


@pytest.mark.parametrize(
    "arithmetic",
    [
        lambda r: r - r + 4,
        lambda r: r * 8 % 4,
        lambda r: 0 * r,
        lambda r: 3 % (r * 4),
        lambda r: 3 // (r * 4),
        lambda r: (r * 4 + 3) % 4,
        lambda r: (r * 4 - 1) // (r * 2),
    ],
)
def test_where_no_name_is_left_a_number_is_plain(arithmetic: Callable[[int], int]) -> None:
    assert type(arithmetic(OpenSize.named("rows", ROWS))) is int


_steps = st.lists(st.tuples(st.sampled_from("+-*"), st.integers(1, 9)), max_size=6)


@given(_steps, st.integers(1, 99))
def test_a_text_holds_at_every_size(steps: list[tuple[str, int]], rows: int) -> None:
    def followed(size: int) -> int:
        for step, number in steps:
            match step:
                case "+":
                    size = size + number
                case "-":
                    size = number - size
                case "*":
                    size = number * size
        return size

    found = followed(OpenSize.named("rows", ROWS))
    assert isinstance(found, OpenSize)
    assert evaluate(f"0 + {found.text}".replace("+ -", "-"), {"rows": rows}) == followed(rows)


_numbers = st.integers(-9, 9)


@given(st.tuples(*[_numbers] * 4), st.tuples(st.integers(1, 9), st.sampled_from([0, 1, 2])))
def test_a_quotient_with_a_text_holds_at_every_size(
    terms: tuple[int, ...], divisor: tuple[int, int]
) -> None:
    def divided(r: int, k: int) -> tuple[int, int]:
        a, b, c, d = terms
        size = a * r * k + b * r + c * k + d
        by = divisor[0] * (1, r, r * k)[divisor[1]]
        return size // by, size % by

    found = divided(OpenSize.named("rows", ROWS), OpenSize.named("keys", KEYS))
    known = [f for f in found if not isinstance(f, OpenSize) or f.terms is not None]
    assert len(known) in (0, 2)
    for rows, keys in ((1, 1), (2, 3), (7, 1), (1, 9), (5, 8)):
        for made, wanted in zip(known, divided(rows, keys), strict=False):
            text = made.text if isinstance(made, OpenSize) else str(made)
            assert (
                evaluate(f"0 + {text}".replace("+ -", "-"), {"rows": rows, "keys": keys}) == wanted
            )
