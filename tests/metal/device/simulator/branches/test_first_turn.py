"""What a running maximum starts from, and what takes it away from there."""

import pytest

from kernelwright.metal.device.simulator.branches.first_turn import stays_at_end

_LEAST, _INFINITE = "0xC7EFFFFFE0000000", "0xFFF0000000000000"


@pytest.mark.parametrize(
    ("start", "shifts", "stays"),
    [
        (_LEAST, (), True),
        (_LEAST, (8.0,), True),
        (_INFINITE, (8.0, -1e30), True),
        (_LEAST, (3.4e38,), False),
        (_LEAST, (1.8e38, 1.6e38), False),
        ("0x3810000000000000", (1.5,), False),
        ("0.000000e+00", (), False),
    ],
)
def test_an_end_of_a_format_stays_one_under_small_numbers_alone(
    start: str, shifts: tuple[float, ...], stays: bool
) -> None:
    assert stays_at_end(start, shifts, "float") is stays
