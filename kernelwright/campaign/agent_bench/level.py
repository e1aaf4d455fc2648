"""The levels of the yardstick's tasks."""

from enum import StrEnum


class Level(StrEnum):
    """How much a kernel has to do."""

    ELEMENTWISE = "elementwise"
    ROWS = "rows"
    """Reductions, with work around them."""
    NEIGHBOURS = "neighbours"
    """Stencils, scans, gathers, scatters, sorts and thin products."""
    PHASES = "phases"
    """What needs whole results of its own before it can go on."""
