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
_SHARING = 4
"""Simdgroups that one would let share a vector that they have to make first."""
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


def matvec_schedules(graph: Graph, *, simdgroups: int = 2) -> tuple[Schedule, ...]:
    """Return every legal schedule, the best guess first.

    Args:
        graph: the products and what follows them.
        simdgroups: of a threadgroup, that one would try first.

    Raises:
        UnsupportedError: a lane could not keep what the graph's products need.
    """
    if prologue := prologue_of(graph):
        rest = prologue.rest.bare()
        sharing = tuple(
            schedule
            for schedule in matvec_schedules(rest, simdgroups=_SHARING)
            if isinstance(schedule, Matvec) and divides_threadgroups(rest, schedule)
        )
        if not sharing:
            raise UnsupportedError("no schedule lets whole threadgroups share a vector.")
        return sharing
    parts = ragged_parts(graph)
    if parts:
        # The longest part sets the order; the others must divide alike.
        spaces = [matvec_schedules(part.bare(), simdgroups=simdgroups) for part in parts]
        longest = spaces[longest_part(parts)]
        shared = tuple(s for s in longest if all(s in space for space in spaces))
        if not shared:
            raise UnsupportedError("no schedule divides all of the products side by side.")
        return shared
    _, dots, product = product_stores(graph, Signature.of(graph))
    rows = graph.output_types[0].size // product.vectors
    wanted = 4 if rows >= MANY_RESULTS else 2 if rows >= FEW_RESULTS else 1

    def strangeness(schedule: Matvec) -> tuple[float, ...]:
        digits = schedule.words * 32 // product.bits
        apart = abs(math.log2(schedule.results / wanted)) + abs(math.log2(digits / 16))
        return apart, schedule.simdgroups != simdgroups

    found = [
        Matvec(results, words, teams)
        for teams in (2, 4, 1, 8)
        for words in words_of(product)
        for results in (4, 2, 8, 1)
        if rows % results == 0
    ]
    fitting = [s for s in found if registers_of(product, len(dots), s) <= _MOST_KEPT]
    if not fitting:
        raise UnsupportedError(
            f"{len(dots)} products of {product.vectors} vectors keep more than a lane can hold; "
            "split the region between them."
        )
    return tuple(sorted(fitting, key=strangeness))
