"""How a kernel is laid out: frozen tuples of small decisions, and their compact text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from kernelwright.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """How a kernel is laid out: small decisions, each a number or a flag, with defaults."""

    family: ClassVar[str]
    """What its text begins with."""

    @classmethod
    def of(cls, decisions: Mapping[str, int]) -> Self:
        """Return the schedule of some decisions, defaults for the others."""
        flags = {f.name for f in fields(cls) if f.type is bool}
        return cls(**{n: bool(v) if n in flags else v for n, v in decisions.items()})


@dataclass(frozen=True)
class Elementwise(Schedule):
    """Each thread computes a run of neighbouring elements."""

    family: ClassVar[str] = "elementwise"

    vector: int = 4
    """Elements per thread, side by side along the innermost axis."""
    threads: int = 256
    """Threads per threadgroup."""
    unroll: int = 1
    """Runs per thread, a threadgroup's width apart; all are read before any is used."""
    rows: int = 1
    """Runs per thread, one below the other; what they read in common is read once."""


@dataclass(frozen=True)
class Rowwise(Schedule):
    """Some lanes share a row: they reduce it in one or several passes, then map over it."""

    family: ClassVar[str] = "rowwise"

    lanes: int = 32
    """Threads per row: 1, a simdgroup (32), or a threadgroup of several simdgroups."""
    rows: int = 4
    """Rows per threadgroup; 1 where a whole threadgroup shares a row."""
    vector: int = 1
    """Elements per lane, side by side."""
    cached: bool = True
    """Keep a row's values in registers between passes; otherwise read and compute them again."""
    online: bool = False
    """Find the maximum and the sum of shifted exponentials in one pass."""
    kahan: bool = False
    """Carry the rounding error of each sum along."""


@dataclass(frozen=True)
class Columnwise(Schedule):
    """Neighbouring threads take neighbouring results; strips of them share what is reduced.

    For reductions over an axis that is not the innermost one: a simdgroup reads along memory.
    """

    family: ClassVar[str] = "columnwise"

    strips: int = 8
    """Parts of the reduced axis that the threads of a threadgroup take side by side."""
    online: bool = False
    """Find the maximum and the sum of shifted exponentials in one pass."""
    vector: int = 1
    """Results per thread, side by side."""
    cached: bool = False
    """Keep what a thread has read in registers between passes; otherwise read it again."""


@dataclass(frozen=True)
class Split(Schedule):
    """Rows too few to fill a GPU: chunks of them are reduced first, in a kernel of their own."""

    family: ClassVar[str] = "split"

    chunks: int = 64
    """Chunks per row, of one threadgroup each."""
    lanes: int = 256
    """Threads per chunk."""
    vector: int = 4
    """Elements per lane, side by side."""


@dataclass(frozen=True)
class ColumnSplit(Schedule):
    """Columns too few to fill a GPU: stretches of them are reduced first, in a kernel of their own.

    As in `Columnwise`, neighbouring threads take neighbouring results.
    """

    family: ClassVar[str] = "column_split"

    chunks: int = 16
    """Stretches of the reduced axis, of other threadgroups each."""
    strips: int = 8
    """Parts of a stretch that the threads of a threadgroup take side by side."""
    vector: int = 1
    """Results per thread, side by side."""


@dataclass(frozen=True)
class Staged(Schedule):
    """Long reductions, too few to fill a GPU, in parts; then what they give, and what reads that.

    Serves any outputs and reductions of reductions, where `Split` and `ColumnSplit` serve results
    of a row each. Whether lanes or strips share a part follows from how its elements lie.
    """

    family: ClassVar[str] = "staged"

    parts: int = 64
    """Parts of each reduction."""
    lanes: int = 256
    """Threads that share a part whose elements are neighbours."""
    strips: int = 8
    """Strips that share a part whose elements stand apart, of neighbouring results each."""
    vector: int = 4
    """Elements per thread, side by side."""


@dataclass(frozen=True)
class Tiled(Schedule):
    """Short rows in threadgroup memory: read and written along memory whatever their length.

    For rows that no vector divides, and for few elements across memory.
    """

    family: ClassVar[str] = "tiled"

    lanes: int = 1
    """Threads per row: 1, or a few of a simdgroup."""
    rows: int = 128
    """Rows per threadgroup; they have to divide all rows."""
    cached: bool = True
    """Keep a row's values in registers between passes; otherwise compute them again."""


@dataclass(frozen=True)
class Transposed(Schedule):
    """Elementwise tiles of what lies across the outputs, turned in threadgroup memory.

    For arrays whose neighbours lie along another axis than the outputs': memory is read and written
    in whole lines.
    """

    family: ClassVar[str] = "transposed"

    rows: int = 64
    """Elements of a tile along which inputs have their neighbours."""
    columns: int = 64
    """Elements of a tile along which the outputs have theirs."""
    vector: int = 4
    """Elements per access, side by side."""
    threads: int = 256
    """Threads per threadgroup, which has one tile."""


@dataclass(frozen=True)
class Banded(Schedule):
    """Rows and columns of one matrix in one walk: a row's lanes keep its columns in registers.

    What the columns of a band of rows join to is joined by a second kernel; what waits for whole
    columns is computed by a third.
    """

    family: ClassVar[str] = "banded"

    lanes: int = 32
    """Threads per row: a simdgroup (32), or a threadgroup of several."""
    teams: int = 8
    """Rows that a threadgroup takes side by side; 1 where all of it shares a row."""
    depth: int = 8
    """Rows that each of them takes one after the other."""
    vector: int = 8
    """Elements per lane, side by side."""


@dataclass(frozen=True)
class Scan(Schedule):
    """Lanes share a row and carry a running value along it, one tile after the other."""

    family: ClassVar[str] = "scan"

    lanes: int = 256
    """Threads per row: a simdgroup (32), or a threadgroup of several."""
    rows: int = 1
    """Rows per threadgroup; 1 where a whole threadgroup shares a row."""
    vector: int = 4
    """Elements per lane, side by side, in each tile."""


@dataclass(frozen=True)
class ColumnScan(Schedule):
    """Scans along an outer axis: neighbouring threads take neighbouring results, as in memory."""

    family: ClassVar[str] = "column_scan"

    strips: int = 16
    """Parts of a tile that the threads of a threadgroup take side by side."""
    depth: int = 8
    """Elements along the scan that a thread takes in each tile, all read before any is used."""
    vector: int = 1
    """Results per thread, side by side."""


@dataclass(frozen=True)
class Attention(Schedule):
    """Queries against a cache: simdgroups take keys in turn and merge what they found."""

    family: ClassVar[str] = "attention"

    lanes: int = 16
    """Lanes that share a key; a simdgroup takes 32 / `lanes` keys side by side."""
    queries: int = 1
    """Queries of one key head that read a key together."""
    simdgroups: int = 4
    """Simdgroups per threadgroup, each with keys of its own."""
    keys: int = 1
    """Keys that a lane reads before it weighs any."""
    chunks: int = 1
    """Threadgroups that share a query's keys; a second kernel merges what several found."""
    fixed: int = 0
    """1 writes the number of keys into the kernel, where no lane then has to ask for it."""

    vector: int = 4
    """The most neighbouring features that a lane reads at once."""


@dataclass(frozen=True)
class Prefill(Schedule):
    """Many queries: a threadgroup holds a tile of them and walks along tiles of keys and values."""

    family: ClassVar[str] = "prefill"

    rows: int = 1
    """Simdgroup matrices, of 8 queries each, that a simdgroup holds."""
    simdgroups: int = 4
    """Simdgroups per threadgroup, each with queries of its own."""
    keys: int = 32
    """Keys and values that are staged at a time; a multiple of 8."""
    fixed: int = 0
    """1 writes the number of tokens into the kernel, where whole tiles then need no edges."""
    ahead: int = 0
    """1 asks for keys and values before it multiplies with the ones before them."""


@dataclass(frozen=True)
class Matvec(Schedule):
    """Rows of a quantized matrix times few vectors: a simdgroup makes several results."""

    family: ClassVar[str] = "matvec"

    results: int = 4
    """Rows of the matrix that a simdgroup multiplies with a vector that it reads once."""
    words: int = 2
    """Packed words of each row that a lane takes at a time."""
    simdgroups: int = 2
    """Simdgroups per threadgroup, each with results of its own; with strips, groups of them."""
    strips: int = 1
    """Simdgroups that share the columns of their results, and add up in threadgroup memory."""


@dataclass(frozen=True)
class Dense(Schedule):
    """Few rows times a matrix: simdgroups share its columns, and strips of what is summed."""

    family: ClassVar[str] = "dense"

    columns: int = 4
    """Columns per simdgroup where lanes run along a dot product, else per lane."""
    strips: int = 1
    """Simdgroups that share the terms of a dot product."""
    teams: int = 4
    """Groups of such simdgroups per threadgroup, each with columns of its own."""
    vector: int = 4
    """Neighbours that a lane reads at once."""
    terms: int = 1
    """Terms of its own columns that a lane reads ahead, while it multiplies as many; 1 for none."""
    chunks: int = 1
    """Threadgroups that share the terms of a dot product; a second kernel adds up their sums."""
    lanes: int = 32
    """Lanes side by side, each with columns of its own; a simdgroup's others take other terms."""


@dataclass(frozen=True)
class Matmul(Schedule):
    """Products of many rows: a threadgroup makes a tile of results on simdgroup matrices."""

    family: ClassVar[str] = "matmul"

    rows: int = 4
    """Simdgroup matrices, of 8 rows each, along a tile's rows."""
    columns: int = 2
    """The same along the columns of each simdgroup."""
    simdgroups: int = 4
    """Simdgroups side by side along a tile's columns."""
    depth: int = 16
    """Terms of the dot products that are staged at a time; a multiple of 8."""


_TEXT = re.compile(r"^(\w+)\((.*)\)$")


def render(schedule: Schedule) -> str:
    """Write a schedule as text, such as `elementwise(vector=4, threads=256)`."""
    decisions = ", ".join(f"{f.name}={int(getattr(schedule, f.name))}" for f in fields(schedule))
    return f"{schedule.family}({decisions})"


def parse(text: str) -> Schedule:
    """Read what `render` wrote.

    Raises:
        InputError: the text is not a schedule.
    """
    match = _TEXT.match(text.strip())
    by_name = {schedule.family: schedule for schedule in Schedule.__subclasses__()}
    family = by_name.get(match[1]) if match else None
    if match is None or family is None:
        raise InputError(f"expected a schedule such as 'elementwise(vector=4)', found {text!r}.")
    legal = {f.name for f in fields(family)}
    decisions: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in match[2].split(","))):
        name, _, value = part.partition("=")
        if name not in legal or not value.isdigit():
            raise InputError(
                f"expected {', '.join(sorted(legal))} as name=number in a {match[1]} schedule, "
                f"found {part!r}."
            )
        decisions[name] = int(value)
    return family.of(decisions)
