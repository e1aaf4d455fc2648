"""How an attention of many queries is divided into tiles."""

from dataclasses import dataclass, replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Expr, Load
from kernelwright.metal.kernel_ir.index import Axis, Index
from kernelwright.metal.lower.attention.terms import Attended, Sizes
from kernelwright.metal.lower.emit.simdgroup_matrix import SIDE
from kernelwright.metal.schedule import Prefill

_PADDING_BYTES = 16
"""Bytes behind a row of a tile, so that its rows begin in different banks."""


@dataclass(frozen=True)
class PrefillTiles:
    """How a schedule divides an attention: tiles of queries, keys and values on simdgroup matrices.

    A threadgroup has one tile of queries, each simdgroup rows of its own; all of them share the
    tiles of keys and values, which are staged one after the other.
    """

    attended: Attended
    schedule: Prefill
    query: Expr
    key: Expr
    value: Expr

    @classmethod
    def of(cls, attended: Attended, schedule: Prefill) -> "PrefillTiles":
        """Divide an attention.

        Raises:
            UnsupportedError: a tile has no whole matrices.
        """
        if schedule.keys % SIDE:
            raise UnsupportedError(
                f"a tile's keys are a multiple of {SIDE}, found {schedule.keys}."
            )
        size = attended.sizes
        head, query, position = (Index.of(axis) for axis in axes_of(size))
        group = head // (size.heads // size.key_heads)
        features = [Index.of(Axis("feature", n)) for n in (size.head, size.width)]
        return cls(
            attended,
            schedule,
            attended.query(head * size.queries + query, features[0]),
            attended.key(group, position, features[0]),
            attended.value(group, position, features[1]),
        )

    def scheduled(self, schedule: Prefill) -> "PrefillTiles":
        """Return the same attention in other tiles."""
        return replace(self, schedule=schedule)

    @property
    def sizes(self) -> Sizes:
        """The dimensions of the attention."""
        return self.attended.sizes

    @property
    def queries(self) -> int:
        """Queries of a tile."""
        return self.own_queries * self.schedule.simdgroups

    @property
    def own_queries(self) -> int:
        """Queries of a simdgroup."""
        return SIDE * self.schedule.rows

    @property
    def staged_queries(self) -> int:
        """Queries that are staged together, eight of each simdgroup."""
        return SIDE * self.schedule.simdgroups

    @property
    def threads(self) -> int:
        """Threads of a threadgroup."""
        return 32 * self.schedule.simdgroups

    @property
    def grows(self) -> bool:
        """True where each query sees more keys than the ones before it."""
        return self.attended.call.flag("is_causal") and not self.sizes.window

    def grid(self, blocks: int | str) -> tuple[int | str, int | str, int]:
        """Return the threads of so many tiles of queries, for every head.

        Where walks along the keys differ in length, the longest of all heads begin first.
        """
        heads = self.sizes.batch * self.sizes.heads
        if self.grows:
            return self.threads * heads, blocks, 1
        along = blocks * self.threads if isinstance(blocks, int) else f"{blocks} * {self.threads}"
        return along, heads, 1

    @property
    def is_ragged(self) -> bool:
        """True where the last tile of keys has places behind the last key."""
        return self.sizes.keys % self.schedule.keys != 0

    @property
    def has_edges(self) -> bool:
        """True where tiles of queries or keys end elsewhere than these do."""
        return self.is_ragged or self.sizes.queries % self.queries != 0

    @property
    def head(self) -> int:
        """Features of a query and a key, filled up to whole matrices."""
        return -(-self.sizes.head // SIDE) * SIDE

    @property
    def width(self) -> int:
        """Features of a value, filled up to whole matrices."""
        return -(-self.sizes.width // SIDE) * SIDE

    @property
    def strip(self) -> int:
        """Features that a simdgroup brings through its part of the panel at a time."""
        matrices = self.width // SIDE
        most = self.schedule.keys // SIDE
        return SIDE * max(n for n in range(1, most + 1) if matrices % n == 0)

    @property
    def scored_dtype(self) -> Dtype:
        """The type in which queries and keys are staged: their own where they are only read."""
        return _shared_dtype(self.query, self.key)

    @property
    def weighed_dtype(self) -> Dtype:
        """The type in which values and weights are staged."""
        return _shared_dtype(self.value)

    def stride(self, features: int, dtype: Dtype) -> int:
        """Return the elements from one row of a tile to the next."""
        return features + _PADDING_BYTES // dtype.itemsize

    @property
    def head_stride(self) -> int:
        """Elements from one query or key to the next."""
        return self.stride(self.head, self.scored_dtype)

    @property
    def width_stride(self) -> int:
        """Elements from one value to the next."""
        return self.stride(self.width, self.weighed_dtype)

    @property
    def weights_stride(self) -> int:
        """Elements from one query's weights to the next."""
        return self.stride(self.schedule.keys, self.weighed_dtype)

    @property
    def panel_stride(self) -> int:
        """Elements from one row of the panel to the next."""
        return self.stride(self.schedule.keys, Dtype.FLOAT32)

    @property
    def is_shared(self) -> bool:
        """True where queries, keys and values are of one type, and take the same memory in turn."""
        return self.scored_dtype is self.weighed_dtype

    @property
    def staged(self) -> int:
        """Elements in which queries are staged first, and then keys, with values where shared."""
        keys = self.schedule.keys
        later = keys * (self.head_stride + (self.width_stride if self.is_shared else 0))
        return max(self.staged_queries * self.head_stride, later)

    @property
    def threadgroup_bytes(self) -> int:
        """Bytes of all tiles."""
        weighed = self.queries * self.weights_stride
        weighed += 0 if self.is_shared else self.schedule.keys * self.width_stride
        panel = self.queries * self.panel_stride * Dtype.FLOAT32.itemsize
        staged = self.staged * self.scored_dtype.itemsize
        return staged + weighed * self.weighed_dtype.itemsize + panel

    @property
    def registers(self) -> int:
        """Two elements a lane of every simdgroup matrix, and what each lane weighs."""
        rows, columns = self.schedule.rows, self.schedule.keys // SIDE
        sums = 2 * (self.width // SIDE + columns)
        queries = self.scored_dtype.itemsize * (self.head // SIDE) // 2
        return rows * (sums + queries + 3) + 2 * columns


def axes_of(size: Sizes) -> tuple[Axis, Axis, Axis]:
    """Return the axes of heads over all batches, of a head's queries, and of keys."""
    heads = Axis("head", size.batch * size.heads)
    return heads, Axis("query", size.queries), Axis("position", size.keys)


def _shared_dtype(*terms: Expr) -> Dtype:
    found = {t.stored if isinstance(t, Load) else Dtype.FLOAT32 for t in terms}
    dtype = found.pop()
    return dtype if not found and dtype.is_float else Dtype.FLOAT32
