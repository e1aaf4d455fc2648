"""What the inputs are that a search for the sides of conditions tries."""

from typing import cast

import numpy as np

from kernelwright.evaluator.coverage.search import Search
from kernelwright.evaluator.coverage.sides import Tally
from kernelwright.evaluator.stages.trial import Trial


def _search(secret: str) -> Search:
    return Search(cast("Trial", None), (), Tally(), (), secret)


def test_two_inputs_of_a_wide_type_meet() -> None:
    random = np.random.default_rng(0)
    first, second = random.integers(1 << 32, size=(2, 64, 64), dtype=np.uint32)
    pools = [first.reshape(-1), second.reshape(-1)]
    assert not (first == second).any()
    for secret in ("a", "b", "c"):
        one, other = _search(secret)._met((first, second), pools)
        assert one is first
        equal = one == other
        assert 0 < equal.sum() < equal.size
        assert (other == second)[~equal].all()


def test_floats_meet_also_where_cases_hold_nan() -> None:
    first, second = np.full((2, 64), [[1], [2]], np.float32)
    _, met = _search("a")._met((first, second), [first, np.array([np.nan, -8, 8], np.float32)])
    assert 0 < (met == 1).sum() < met.size


def test_an_index_takes_no_number_that_its_cases_do_not_hold() -> None:
    count, ids = np.arange(1000, dtype=np.int32), np.zeros(1000, np.int32)
    _, met = _search("a")._met((count, ids), [count, np.array([0, 19])])
    assert 0 < met.max() <= 19
