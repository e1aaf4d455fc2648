"""The probe's own check judges what is a number in both answers."""

import numpy as np

from benchmarks.models.check import relative_error


def test_what_is_no_number_is_not_judged() -> None:
    exact = np.array([1.0, np.nan, np.inf, 4.0])
    found = np.array([1.0, 3.0, 2.0, 4.0])
    assert relative_error(found, exact, np.isfinite(exact)) == 0.0


def test_a_number_that_is_lost_counts() -> None:
    exact = np.array([1.0, 2.0])
    assert not relative_error(np.array([1.0, np.nan]), exact, np.isfinite(exact)) <= 1.0
