"""Running values start from what changes nothing, for every kind of number."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.ir import Dtype, TensorType
from kernelwright.ir.ops import Call, op_named

NUMBERS = np.array([[3, 1, 2]])


def scanned(name: str, x: NDArray[np.generic], dtype: Dtype, *, reverse: bool = False) -> object:
    attributes = {"axis": 1, "reverse": reverse, "inclusive": False}
    type_ = TensorType(x.shape, dtype)
    meaning = op_named(name).meaning
    assert meaning is not None
    return np.asarray(meaning(Call(attributes, (type_,), (type_,)), x)).tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cumsum", [[0, 3, 4]]),
        ("cumprod", [[1, 3, 3]]),
        ("cummax", [[-128, 3, 3]]),
        ("cummin", [[127, 3, 1]]),
    ],
)
def test_integers_start_from_their_own_limits(name: str, expected: object) -> None:
    assert scanned(name, NUMBERS.astype(np.int8), Dtype.INT8) == expected


def test_truth_values_start_from_their_own_limits() -> None:
    flags = np.array([[True, False, True]])
    assert scanned("cummax", flags, Dtype.BOOL) == [[False, True, True]]
    assert scanned("cummin", flags, Dtype.BOOL) == [[True, True, False]]


def test_truth_values_are_summed_in_the_dtype_of_the_result() -> None:
    flags = np.array([[True, True, True]])
    assert scanned("cumsum", flags, Dtype.INT32) == [[0, 1, 2]]


def test_complex_extremes_start_from_infinity() -> None:
    values = NUMBERS.astype(np.complex128)
    infinite = complex(-np.inf, -np.inf)
    assert scanned("cummax", values, Dtype.COMPLEX64) == [[infinite, 3 + 0j, 3 + 0j]]


def test_a_scan_may_run_backwards() -> None:
    assert scanned("cumsum", NUMBERS.astype(np.int8), Dtype.INT8, reverse=True) == [[3, 2, 0]]
