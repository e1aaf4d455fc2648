"""Caps are written with no more figures than they say something with."""

import pytest

from kernelwright.agents.cap_text import in_dollars, in_time


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0, "$0.00"), (1, "$1.00"), (0.35, "$0.35"), (0.1045, "$0.1045"), (0.00001, "$0.0001")],
)
def test_money_is_written_to_the_cent_or_a_hundredth_of_one(dollars: float, shown: str) -> None:
    assert in_dollars(dollars) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(9, "9 s"), (0.5, "0.5 s"), (90, "1 min 30 s"), (28800, "8 h")]
)
def test_time_is_written_in_the_units_that_it_fills(seconds: float, shown: str) -> None:
    assert in_time(seconds) == shown
