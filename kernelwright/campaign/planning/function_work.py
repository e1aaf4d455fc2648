"""How much MLX does for one call of a function, as it was counted."""

from kernelwright.metal.diagnostic import Record


class Work(Record):
    """Bytes to and from memory, kernel launches and arithmetic of one call."""

    nbytes: int
    launches: int
    flops: int


class FunctionWork(Record):
    """What MLX does for one call of a function, and for what no region covers."""

    eager: Work
    compiled: Work
    fast: Work
    regions: tuple[Work, ...]
    """What MLX does at its best for each region, in graph order."""
    rest: Work
    """What stays with MLX where every region runs a kernel."""
