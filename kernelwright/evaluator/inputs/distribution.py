"""The kinds of data that break kernels."""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
"""What the oracle computes with."""


class Distribution(StrEnum):
    """A kind of data; its value names the case in a diagnosis."""

    NORMAL = "normal"
    MIXED = "mixed"
    """Rows of every other kind, for every input in turn: many cases in one run."""
    OFFSET = "offset"
    """Mean far from zero: catches cancellation in one-pass variances."""
    SMALL = "small"
    """Each row of another size, down to where an epsilon beside its variance matters."""
    LARGE = "large"
    HUGE = "huge"
    """Beyond the range of halves, where the format is wider: catches a detour through them."""
    DENORMAL = "denormal"
    WIDE = "wide range"
    """Magnitudes over many powers of two: catches a drop in precision."""
    CONSTANT = "constant"
    ONE_HOT = "one-hot"
    TIED = "tied"
    ALTERNATING = "alternating"
    SORTED = "sorted"
    MASKED = "masked"
    """Minus infinity in random places, at an end of a row, in all but one or two, in whole rows."""
    SPECIAL = "special"
    """A few NaN and infinities among ordinary values."""
    NAN = "NaN"
    """One NaN of either sign in a row: first, last or anywhere."""
    INFINITE = "infinite"
    """An infinity of either sign at the start or the end of a row."""
    ZERO = "zero"
    """Rows of zeros of either sign; the smallest integers, and no flag set."""
    EXTREME = "extreme"
    """The largest and smallest numbers of the format, and 1e30 and 1e-30; the largest integers,
    and every flag set."""
    SENTINEL = "sentinel"
    """Masks that are finite: the format's lowest number, and -1e9; in places, in whole rows."""
    SPARSE = "sparse"
    """Exact zeros in every input: unused channels, biases that nobody trained, padding."""
    SHIFTED = "shifted"
    """Mean a hundred deviations from zero: where MLX's two passes hold, one pass never does."""
    DISTANT = "distant"
    """Far below zero, as additive masks are: catches a maximum that starts from a number."""
    PAIRED = "paired"
    """Inputs equal, opposite, one step apart, and every pair of special values at one place."""
    BEHIND_MASK = "behind masks"
    """NaN, infinities and huge numbers wherever a mask hides them."""
    LATTICE = "lattice"
    """Few small numbers that are exact in every format: sums and products of them meet."""
    CUT = "cut by half"
    """Numbers of nearly one size that narrower formats round down: a sum shows terms of halves."""
    SIGNS = "signs"
    """The same with negative ones among them, in no order, which no format cuts: a long sum shows
    each term that is lost."""
    FAINT = "faint"
    """So small that a norm of all of them is below one, for tasks that join all and then decide."""
    BOUNDARY = "next to boundaries"
    """Elements on either side of constants that a task holds a computed value against."""
    LONE = "lone extremes"
    """One great and one low number in each row, one flag unlike the others, column by column."""
    STRUCTURED = "structured"
    """Structure that users' data has: ramps, images, padding, fresh parameters, masks, orders."""
    LITERALS = "literals"
    """The numbers that stand in the program's own text, and their neighbours."""
    BESIDE_NAN = "NaN beside far numbers"
    """A NaN before or behind hundreds, numbers near the end of the format, or infinities."""
    NEAR_ENDS = "near the ends"
    """One number some powers of two below the format's end, or all close above its least normal
    one: catches a factor that overflows, or underflows, where nothing need."""
    FADING = "fading weights"
    """Values of every size that weights of a softmax add up, some of which all but vanish: catches
    weights that are cut off, or rounded to fewer exponents."""


FOCUSED = frozenset(
    (
        *(Distribution.DENORMAL, Distribution.OFFSET, Distribution.SHIFTED, Distribution.DISTANT),
        *(Distribution.MASKED, Distribution.SPECIAL, Distribution.NAN, Distribution.INFINITE),
        *(Distribution.ZERO, Distribution.EXTREME, Distribution.SENTINEL, Distribution.SORTED),
        *(Distribution.ONE_HOT, Distribution.CONSTANT),
        *(Distribution.BESIDE_NAN, Distribution.NEAR_ENDS, Distribution.FADING),
    )
)
"""Kinds that one input takes at a time, lest they hide the others."""
NOT_FINITE = frozenset(
    (
        *(Distribution.SPECIAL, Distribution.NAN, Distribution.INFINITE),
        Distribution.BESIDE_NAN,
    )
)
"""Kinds that show whether products by zero are computed: the other inputs have rows of zeros."""
ROTATED = (
    *(Distribution.SPECIAL, Distribution.ZERO, Distribution.EXTREME, Distribution.MASKED),
    *(Distribution.INFINITE, Distribution.SENTINEL),
)
"""Kinds that every float input takes in a case of its own, where cases are small."""
