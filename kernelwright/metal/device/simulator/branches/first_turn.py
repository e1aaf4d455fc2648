"""Comparisons with what a loop starts from: the end of a format, until a turn brings data into it.

A running maximum starts there. Where the launch has no second turn, a comparison with it asks for
special numbers alone, whatever it asks for in later turns.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelwright.metal.device.simulator.branches.flag_way import Way, start_of, ways_of
from kernelwright.metal.device.simulator.branches.listing import Function, Instruction
from kernelwright.metal.device.simulator.branches.predicate import (
    COMPARISON,
    is_end_of_format,
    number_of,
)
from kernelwright.metal.device.simulator.branches.taint import Taint

_MOST_SHIFTS = 4
_TYPES: Mapping[str, type[np.floating]] = {"float": np.float32, "half": np.float16}
_SHIFTS = ("fadd", "fsub")


def ways_beyond_ends(function: Function, taint: Taint) -> dict[str, tuple[Way, ...]]:
    """Return by comparison the ways by which data comes into an end of a format there."""
    found = dict[str, tuple[Way, ...]]()
    for instruction in function.instructions:
        compared = COMPARISON.match(instruction.text)
        if compared is None or compared[1] != "fcmp" or instruction.result not in taint.names:
            continue
        for operand in (compared[4], compared[5]):
            kept = _kept_from(function, operand, compared[3])
            if kept is not None and (ways := ways_of(function, taint, kept)):
                found[instruction.result] = ways
    return found


def _kept_from(function: Function, name: str, kind: str) -> Instruction | None:
    """Return the value kept from turn to turn that an operand is, if it starts as such an end.

    What is added may not take it away from there, as 8 does not the largest float.
    """
    shifts = list[float]()
    for _ in range(_MOST_SHIFTS):
        made = function.definitions.get(name)
        if made is None:
            return None
        if made.operation == "phi":
            start = start_of(function, made)
            return made if start is not None and stays_at_end(start, shifts, kind) else None
        operands = made.text.rpartition(f" {kind} ")[2].split(", ")
        if made.operation not in _SHIFTS or len(operands) != 2:
            return None
        numbers = [one for one in operands if one[0] != "%"]
        name = next((one for one in operands if one[0] == "%"), "")
        if len(numbers) != 1 or not name:
            return None
        shifts.append(number_of(numbers[0]))
    return None


def stays_at_end(start: str, shifts: Sequence[float], kind: str) -> bool:
    """Say whether a number is the end of a format, and is still after what is added."""
    if not is_end_of_format(start) or (shifts and kind not in _TYPES):
        return False
    if not shifts:
        return True
    end = _TYPES[kind](number_of(start))
    with np.errstate(all="ignore"):
        steps = [_TYPES[kind](shift) for shift in shifts]
        return all(abs(end) > 1 and end + step == end and end - step == end for step in steps)
