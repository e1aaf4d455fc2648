"""Wrong places in words."""

from types import EllipsisType

import numpy as np
import pytest

from kernelwright.evaluator.diagnose.location import Mask, first_bad, locate

Place = slice | int | EllipsisType | tuple[int | slice | list[int] | EllipsisType, ...]


def mask(shape: tuple[int, ...], place: Place) -> Mask:
    bad = np.zeros(shape, bool)
    bad[place] = True
    return bad


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (mask((8, 33), np.s_[:, 30:]), "the last 3 columns of every row"),
        (mask((8, 33), np.s_[:, 32]), "the last column of every row"),
        (mask((300, 4), np.s_[256:]), "the last 44 rows"),
        (mask((300, 4), np.s_[100:]), "rows from 100 on"),
        (mask((8, 32), np.s_[:, ::2]), "every second column from column 0 of every row"),
        (mask((8, 32), np.s_[3]), "row 3"),
        (mask((48, 4), np.s_[4::43]), "rows 4 and 47"),
        (mask((2, 8), np.s_[:, [1, 6]]), "columns 1 and 6 of every row"),
        (mask((8, 32), np.s_[0, :4]), "the first 4 columns of the first row"),
        (mask((2, 3, 8), np.s_[1, :, 5:]), "the last 3 columns of the last 3 rows"),
        (mask((8, 32), np.s_[...]), "every element"),
        (mask((33,), np.s_[32:]), "the last element"),
        (mask((1, 64), np.s_[0, 32:]), "the last 32 elements"),
        (mask((), np.s_[...]), "the only element"),
        (mask((4, 4), ([0, 1, 3], [1, 0, 2])), "3 of 16 elements, in 3 of 4 rows, the first at 0"),
    ],
)
def test_a_wrong_place_is_told_in_words(bad: Mask, words: str) -> None:
    assert locate(bad) == words


def test_the_first_wrong_element_is_in_row_major_order() -> None:
    assert first_bad(mask((3, 4), ([2, 1], [0, 3]))) == (1, 3)
