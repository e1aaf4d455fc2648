"""What a watching build knows of each condition that it watches."""

from kernelwright.metal.diagnostic import Record

SEEN, FORCED, COMPARED = "kw_condition_seen", "kw_condition_forced", "kw_condition_compared"
"""Of each condition: two bytes, whether it was false and true; a byte that is 1 to force it to be
false, 2 true; the two numbers that it compared last."""
BITS, CHANGED = "kw_value_bits", "kw_value_changed"
"""Of each value: the bits that it ever had and those that it always had; bits to be turned."""
MOST_CONDITIONS = 4096


class Site(Record):
    """A condition of the text; copies of it that a compiler has made are one."""

    file: str
    line: int
    column: int
    kind: str
    """The comparison, such as `fcmp oeq`, or the operation that joins conditions."""
    constant: str = ""
    """What it compares with, where that is written in the text."""
    has_values: bool = False
    loaded: tuple[int, int] = (-1, -1)
    """The buffers that the compared numbers were loaded from, where nothing was done to them."""
    is_known: tuple[bool, bool] = (False, False)
    """Which of the compared numbers depend on no loaded data."""
    is_special: bool = False
    """It asks whether numbers are NaN, infinite or at the end of their format, and no more."""
    is_chosen: bool = False
    """The first compared number is a place that data chose, or a mark in its stead."""
    numbers: tuple[float, ...] = ()
    """Those of the text that what it compares is computed with."""
    reads_bits: bool = False
    """What it compares is computed from the bits of a float."""
    loads: tuple[int, ...] = ()
    """The buffers of which elements that it compares are loaded as integers."""
    parts: tuple[tuple[int, bool], ...] = ()
    """The conditions that it joins, and whether it takes their opposite."""
    guards: tuple[tuple[int, bool], ...] = ()
    """The conditions around it, and the sides of them without which it is not come to."""
    reads_data: bool = False
    """What it compares is computed from loaded data, not only from what special numbers give."""
    value_type: str = ""
    """Of a value that is no condition: its type."""
    compares: bool = False
    """What it compares hangs on other comparisons, which ask for more than special numbers."""
