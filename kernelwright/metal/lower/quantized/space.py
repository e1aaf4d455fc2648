"""Which schedules quantized matrices times few vectors have, and what a lane keeps in each."""

import math

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Call
from kernelwright.metal.family.component import longest_part, ragged_parts
from kernelwright.metal.family.matvec import Product, products
from kernelwright.metal.family.prologue import prologue_of
from kernelwright.metal.lower.program.signature import Signature
from kernelwright.metal.lower.quantized.terms import product_stores
from kernelwright.metal.schedule import Matvec, Schedule

VECTORS = {
    1: "",
    2: "packed_uint2",
    3: "packed_uint3",
    4: "packed_uint4",
    5: "packed_five<uint>",
}
"""What holds the words that a lane reads in one access, by their number."""
MANY_RESULTS, FEW_RESULTS = 4096, 1024
"""From how many results on four to a simdgroup leave a GPU full, and below how many not even two:
tens of cores with tens of simdgroups each."""
_DIGITS, _DIGITS_SHARING = 16, 8
"""Digits that one would let a lane take at a time, and where a threadgroup makes its vector."""
_STRIPS, _STRIPS_SHARING = 8, 4
"""Simdgroups that one would let share columns, and where they make the vector themselves.

On an H200, of the 20 to 35 schedules timed for each of 16 products of models in 4 bits, the first
takes 1.07 times the best on the geometric mean and 1.32 at most (benchmarks/results/models.md).
"""
_TEAM = 8
"""Simdgroups that one would put into a threadgroup, strips counted."""
_MOST_SIMDGROUPS = 16
"""Of a threadgroup."""
_MOST_KEPT = 128
"""Registers that a lane's part of the vectors and its sums may take; our choice."""


def divides_threadgroups(graph: Graph, schedule: Matvec) -> bool:
    """Say whether every threadgroup of a graph's products has all of its simdgroups."""
    parts = ragged_parts(graph)
    if parts:
        return all(divides_threadgroups(part.bare(), schedule) for part in parts)
    node = products(graph)[0]
    rows = graph.output_types[0].size // Product.of(Call.of(graph, node), node.op).vectors
    return rows % (schedule.results * schedule.simdgroups) == 0


def fits_strips(product: Product, rows: int, schedule: Matvec) -> bool:
    """Say whether simdgroups can share columns as a schedule has it: each of them has some."""
    if schedule.strips == 1:
        return True
    digits = schedule.words * 32 // product.bits
    return (
        rows % (schedule.results * schedule.simdgroups) == 0
        and 32 * digits * (schedule.strips - 1) < product.columns
    )


def words_of(product: Product) -> tuple[int, ...]:
    """Return how many packed words a lane may take at a time, one group's at most."""
    digits, words = product.run
    vectors = 1 if product.is_gathered else product.vectors
    return tuple(
        words * times
        for times in (1, 2, 4)
        if words * times in VECTORS
        and product.group_size % (digits * times) == 0
        and (times == 1 or digits * times * vectors <= 32)
    )


def registers_of(product: Product, dots: int, schedule: Matvec) -> int:
    """Count what a lane keeps: its part of every vector, its sums, and one row's words."""
    vectors = 1 if product.is_gathered else product.vectors
    digits = schedule.words * 32 // product.bits
    return vectors * (digits + schedule.results * dots) + dots * (schedule.words + 2)


def matvec_registers(graph: Graph, schedule: Matvec) -> int:
    """Estimate the registers of a graph's kernel under a schedule."""
    if prologue := prologue_of(graph):
        return matvec_registers(prologue.rest.bare(), schedule)
    parts = ragged_parts(graph)
    if parts:
        return max(matvec_registers(part.bare(), schedule) for part in parts)
    _, dots, product = product_stores(graph, Signature.of(graph))
    return registers_of(product, len(dots), schedule)


def matvec_schedules(graph: Graph, *, is_sharing: bool = False) -> tuple[Schedule, ...]:
    """Return every legal schedule, the best guess first.

    Args:
        graph: the products and what follows them.
        is_sharing: whether each threadgroup makes their vector before.

    Raises:
        UnsupportedError: a lane could not keep what the graph's products need.
    """
    if prologue := prologue_of(graph):
        rest = prologue.rest.bare()
        sharing = tuple(
            schedule
            for schedule in matvec_schedules(rest, is_sharing=True)
            if isinstance(schedule, Matvec) and divides_threadgroups(rest, schedule)
        )
        if not sharing:
            raise UnsupportedError("no schedule lets whole threadgroups share a vector.")
        return sharing
    parts = ragged_parts(graph)
    if parts:
        # The longest part sets the order; the others must divide alike.
        spaces = [matvec_schedules(part.bare(), is_sharing=is_sharing) for part in parts]
        longest = spaces[longest_part(parts)]
        shared = tuple(s for s in longest if all(s in space for space in spaces))
        if not shared:
            raise UnsupportedError("no schedule divides all of the products side by side.")
        return shared
    _, dots, product = product_stores(graph, Signature.of(graph))
    rows = graph.output_types[0].size // product.vectors
    digits, most = (_DIGITS_SHARING, _STRIPS_SHARING) if is_sharing else (_DIGITS, _STRIPS)
    strips = max(n for n in (1, 2, 4, 8) if n <= max(min(most, product.columns // 32 // digits), 1))
    made = rows * strips
    wanted = 4 if made >= MANY_RESULTS else 2 if made >= FEW_RESULTS else 1

    def strangeness(schedule: Matvec) -> tuple[float, ...]:
        taken = schedule.words * 32 // product.bits
        apart = [
            math.log2(schedule.results / wanted),
            math.log2(taken / digits),
            math.log2(schedule.strips / strips),
        ]
        return sum(map(abs, apart)), schedule.simdgroups != max(_TEAM // strips, 1)

    found = [
        Matvec(results, words, teams, strips)
        for strips in (1, 2, 4, 8)
        for teams in (2, 4, 1, 8)
        for words in words_of(product)
        for results in (4, 2, 8, 1)
        if rows % results == 0 and strips * teams <= _MOST_SIMDGROUPS
    ]
    fitting = [
        s
        for s in found
        if registers_of(product, len(dots), s) <= _MOST_KEPT and fits_strips(product, rows, s)
    ]
    if not fitting:
        raise UnsupportedError(
            f"{len(dots)} products of {product.vectors} vectors keep more than a lane can hold; "
            "split the region between them."
        )
    return tuple(sorted(fitting, key=strangeness))
