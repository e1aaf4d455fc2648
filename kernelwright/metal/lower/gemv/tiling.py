"""How products of few rows are divided among threads, and what that takes on chip."""

from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel_ir.expression import Expr, Load, Store, walk
from kernelwright.metal.lower.emit.neighbour import WIDTHS
from kernelwright.metal.lower.gemv.terms import Dense, Dot, runs_along_depth
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.schedule import Dense as Schedule


@dataclass(frozen=True)
class Tiling:
    """How a schedule divides products among threads."""

    dense: Dense
    stores: tuple[Store, ...]
    """What is written of the element `result` of a row."""
    totals: tuple[Expr, ...]
    """The dot products of that element."""
    schedule: Schedule

    @classmethod
    def of(cls, graph: Graph, signature: Signature, schedule: Schedule) -> "Tiling":
        """Divide the columns among simdgroups.

        Raises:
            UnsupportedError: they do not divide.
        """
        dense = Dense.of(graph, signature)
        last = Dense.of(graph, signature, "result")
        stores = tuple(last.stores(signature))
        dense.stores(signature)
        if not dense.dots:
            raise UnsupportedError("no output is made of a matrix product.")
        tiling = cls(dense, stores, tuple(d.total for d in last.dots.values()), schedule)
        if reason := tiling.trouble:
            raise UnsupportedError(reason)
        return tiling

    def scheduled(self, schedule: Schedule) -> "Tiling | None":
        """Return the same products divided in another way, None where they do not divide."""
        other = replace(self, schedule=schedule)
        return None if other.trouble else other

    @property
    def trouble(self) -> str:
        """Say why the schedule does not divide the products, or nothing."""
        schedule, columns = self.schedule, self.dense.column.extent
        run = self.dense.depth if self.is_along else columns
        if schedule.vector not in (1, *WIDTHS) or run % schedule.vector:
            return f"runs of {schedule.vector} do not divide {run} neighbours; use vector=1."
        if self.is_along and columns % self.tile:
            return (
                f"{schedule.teams} teams of {schedule.columns} columns do not divide "
                f"{columns}; use fewer."
            )
        if not self.is_along and schedule.columns != 1:
            return "lanes that share no column have columns=1."
        if self.is_along:
            is_plain = schedule.terms == 1 and schedule.lanes == 32
            return "" if is_plain else "lanes that share a column have terms=1 and lanes=32."
        if schedule.lanes not in (2, 4, 8, 16, 32):
            return f"{schedule.lanes} lanes do not divide a simdgroup; use 2, 4, 8, 16 or 32."
        if schedule.terms not in (1, *WIDTHS) or self.dense.depth % self.step:
            return (
                f"turns of {self.step} terms do not divide {self.dense.depth}; "
                "use terms=1 and lanes=32."
            )
        return ""

    @cached_property
    def dots(self) -> tuple[Dot, ...]:
        """The dot products of an output element."""
        return tuple(self.dense.dots.values())

    @cached_property
    def is_along(self) -> bool:
        """True where lanes share a dot product, else they have columns of their own."""
        return runs_along_depth(self.dots)

    @property
    def tile(self) -> int:
        """Columns of a threadgroup."""
        schedule = self.schedule
        own = schedule.columns if self.is_along else schedule.lanes * schedule.vector
        return schedule.teams * own

    @property
    def slots(self) -> int:
        """Terms, or runs of them, that the lanes of a simdgroup take side by side."""
        return 32 // self.schedule.lanes

    @property
    def threads(self) -> int:
        """Threads of a threadgroup."""
        return 32 * self.schedule.strips * self.schedule.teams

    @property
    def parts(self) -> int:
        """Simdgroups that share the terms of a dot product, wherever they stand."""
        return self.schedule.strips * self.schedule.chunks

    @property
    def step(self) -> int:
        """Terms of a dot product that a simdgroup takes in a turn."""
        return 32 * self.schedule.vector if self.is_along else self.schedule.terms * self.slots

    @property
    def turns(self) -> int:
        """Turns that a simdgroup would take with all the terms of a dot product."""
        return -(-self.dense.depth // self.step)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of matrices that a column and a term of every dot product need."""
        loads = {t for t in walk(d.weight for d in self.dots) if isinstance(t, Load)}
        # A matrix of one row or one column is a vector as well.
        matrices = [load for load in loads if len(load.axes) > 1] or loads
        return max(sum(load.stored.itemsize for load in matrices), 1)

    @property
    def registers(self) -> int:
        """Sums of a lane, the row elements that it keeps, and the weights that it reads ahead."""
        schedule, tokens = self.schedule, self.dense.tokens
        own = schedule.columns if self.is_along else schedule.vector
        kept = tokens * (schedule.vector if self.is_along else schedule.terms)
        return len(self.dots) * tokens * own + kept + self._registers_ahead

    @property
    def _registers_ahead(self) -> int:
        """Registers of the weights that a lane has asked for, and of those that it multiplies."""
        schedule = self.schedule
        if schedule.terms == 1:
            return 0
        return -(-(schedule.terms + 1) * schedule.vector * self.weight_bytes // 4)

    @property
    def threadgroup_bytes(self) -> int:
        """Bytes in which simdgroups leave their sums."""
        return 4 * len(self.dots) * self.schedule.strips * self.dense.tokens * self.tile
