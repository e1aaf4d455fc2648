"""Elements on either side of where a task's function bends: a comparison, a clamp, a maximum.

A loss that is a square below a threshold and a line above it is continuous there, and a threshold
that is moved by a hundredth changes a mean of ordinary elements by less than the mean's own
rounding. It shows where all elements of a row lie next to the threshold, or one of them does and
the others add nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.inputs.independence import rows_of
from kernelwright.evaluator.inputs.interval import compares, known_numbers
from kernelwright.evaluator.inputs.value_domain import Domain
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.device.executable import Array

Reals = NDArray[np.float64]
_MOST_BOUNDARIES, _MOST_CONSTANTS = 3, 4
_FARTHEST = 1e6
_TURNS = 2
"""One row of so many is moved; the others stay what they are."""
_FEW = (1, 2, 16)
"""Elements of a row next to the boundary whose others add nothing."""
_NEAREST = {Dtype.FLOAT32: 10, Dtype.FLOAT16: 8, Dtype.BFLOAT16: 6}
"""Powers of two, of the constant, by which elements lie off it."""
_FARTHEST_POWER = 2
_MOST_STEPS = 8
_CLOSE = 1 / 8
"""Of the distance from the boundary: so closely it is met."""
_FIRST_STEP = 2.0**-10
_NEXT_SHARE = 3
"""One row of so many has numbers next to the constant, where the value is an input itself."""


@dataclass(frozen=True)
class Boundary:
    """A value that is held against constants, and an input of its shape that moves it.

    Elements of the input move only their own elements of the value.
    """

    value: ValueId
    place: int
    constants: tuple[float, ...]


def boundaries_of(graph: Graph) -> tuple[Boundary, ...]:
    """Return some of the places where a graph's function bends, or jumps."""
    movers = _movers(graph)
    found: dict[tuple[ValueId, int], tuple[float, ...]] = {}
    for node in graph.nodes:
        for value, constants in _held(graph, node):
            for place in sorted(movers.get(value, ()), key=lambda p: -p)[:1]:
                key = (value, place)
                found[key] = tuple(dict.fromkeys((*found.get(key, ()), *constants)))
    made = (Boundary(v, place, c[:_MOST_CONSTANTS]) for (v, place), c in found.items())
    return tuple(made)[:_MOST_BOUNDARIES]


def place_boundaries(
    graph: Graph, arrays: Sequence[Array], domains: Sequence[Domain], random: Random
) -> tuple[Array, ...]:
    """Move elements of half of the rows to where the graph's function bends."""
    made = list(arrays)
    found = boundaries_of(graph)
    for turn, boundary in enumerate(found):
        domain, old = domains[boundary.place], made[boundary.place]
        wanted, near = _targets(graph, boundary, (turn, len(found)), random)
        moved = _solved(_Part.of(graph, boundary), made, wanted, near)
        if domain.is_positive:
            moved = np.where(moved > 0, moved, old.astype(np.float64))
        with np.errstate(over="ignore"):
            made[boundary.place] = moved.astype(old.dtype).reshape(old.shape)
    return tuple(made)


def _held(graph: Graph, node: Node) -> Iterator[tuple[ValueId, tuple[float, ...]]]:
    """Yield what a node holds against constants, with these."""
    op = op_named(node.op)
    bounds = op.kind is Kind.ELEMENTWISE and op.behaviour.is_extreme
    if not (compares(node) or bounds) or len(node.inputs) != 2:
        return
    for value, other in (node.inputs, node.inputs[::-1]):
        known = known_numbers(graph, other)
        if known is None or known.dtype.kind == "c" or not graph.types[value].dtype.is_float:
            continue
        numbers = np.unique(known.astype(np.float64))
        numbers = numbers[np.abs(numbers) <= _FARTHEST]
        if 0 < numbers.size <= _MOST_CONSTANTS:
            yield value, tuple(numbers.tolist())


def _movers(graph: Graph) -> dict[ValueId, frozenset[int]]:
    """Return by value which inputs move each of its elements by their own at the same place."""
    found: dict[ValueId, frozenset[int]] = {}
    joined: dict[ValueId, frozenset[int]] = {}
    for place, value in enumerate(graph.inputs):
        is_movable = graph.types[value].dtype in _NEAREST and graph.types[value].size
        found[value] = frozenset((place,) if is_movable else ())
        joined[value] = frozenset()
    for node in graph.nodes:
        own = frozenset[int]().union(*(found.get(v, frozenset()) for v in node.inputs))
        mixed = frozenset[int]().union(*(joined.get(v, frozenset()) for v in node.inputs))
        if op_named(node.op).kind is not Kind.ELEMENTWISE:
            own, mixed = frozenset(), own | mixed
        for value in node.outputs:
            found[value], joined[value] = own, mixed
    return {value: places - joined[value] for value, places in found.items()}


@np.errstate(all="ignore")
def _targets(
    graph: Graph, boundary: Boundary, turn: tuple[int, int], random: Random
) -> tuple[Reals, Reals]:
    """Return what elements shall be made of a value, NaN where they stay, and how closely."""
    type_ = graph.types[graph.inputs[boundary.place]]
    columns = type_.shape[-1] if rows_of(graph, boundary.place) is not None and type_.shape else 0
    columns = columns or type_.size
    rows = type_.size // columns
    places, powers = np.arange(rows)[:, None], _NEAREST[type_.dtype] - _FARTHEST_POWER + 1
    constant = np.resize(np.array(boundary.constants), rows)[random.permutation(rows)][:, None]
    size = np.where(constant == 0, 1.0, np.abs(constant))
    # Rows whose elements all are one distance away, and such as hold few of any distance.
    is_all = (places % 4 == 0) & (rows > 1)
    number = np.where(is_all, random.integers(powers, size=(rows, 1)), np.arange(columns) % powers)
    # Equal numbers are all rounded alike, which hides more of their sum.
    distance = size * 2.0 ** (random.random((rows, columns)) - _FARTHEST_POWER - number)
    if boundary.value == graph.inputs[boundary.place]:
        # What is held as it comes may be told from its neighbours.
        is_next = random.integers(0, _NEXT_SHARE, (rows, 1)) == 0
        spacing = 2.0 ** np.floor(np.log2(size)) * type_.dtype.epsilon
        distance = np.where(is_next, spacing, distance)
    sign = np.where(random.integers(0, 2, (rows, columns), np.int8) > 0, 1.0, -1.0)
    wanted = constant + sign * distance
    is_near = np.zeros((rows, columns), bool)
    for row, count in enumerate(np.resize(_FEW, rows) if rows > 1 else _FEW[-1:]):
        is_near[row, random.integers(columns, size=count)] = True
    is_near |= is_all
    wanted = np.where(is_near, wanted, np.where(constant == 0, size, 0.0))
    stays = (places + turn[0]) % (_TURNS * turn[1]) != 0 if rows > 1 else turn[0] > 0
    wanted = np.where(stays, np.nan, wanted)
    return wanted.reshape(type_.shape), np.asarray(_CLOSE * distance).reshape(type_.shape)


@dataclass(frozen=True)
class _Part:
    """What of a graph it takes to evaluate one value."""

    graph: Graph
    place: int
    kept: tuple[int, ...]
    """The graph's inputs that it reads, by their places."""

    @classmethod
    def of(cls, graph: Graph, boundary: Boundary) -> "_Part":
        """Cut a boundary's value out of its graph."""
        needed, nodes = {boundary.value}, list[Node]()
        for node in reversed(graph.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                nodes.append(node)
        kept = tuple(place for place, v in enumerate(graph.inputs) if v in needed)
        part = replace(
            graph,
            inputs=tuple(graph.inputs[place] for place in kept),
            constants=tuple((v, c) for v, c in graph.constants if v in needed),
            nodes=tuple(reversed(nodes)),
            outputs=(boundary.value,),
            keywords=(),
            names=(),
            turns=(),
            results=None,
        )
        return cls(part, boundary.place, kept)

    def value(self, arrays: Sequence[Array], moved: Reals) -> Reals:
        """Evaluate it for the one input that is moved."""
        read = [moved if place == self.place else arrays[place] for place in self.kept]
        (found,) = reference(self.graph, read)
        return np.asarray(found, np.float64).reshape(moved.shape)


@np.errstate(all="ignore")
def _solved(part: _Part, arrays: Sequence[Array], wanted: Reals, near: Reals) -> Reals:
    """Return the input with which a value is what is wanted, by secants; elsewhere as it was."""
    old = arrays[part.place].astype(np.float64)
    last, now = old, old + _FIRST_STEP * np.maximum(np.abs(old), 1.0)
    value_last, value = part.value(arrays, last), part.value(arrays, now)
    best, error = old, np.full(old.shape, np.inf)
    for _ in range(_MOST_STEPS):
        off = np.abs(value - wanted)
        is_closer = off < error
        best, error = np.where(is_closer, now, best), np.where(is_closer, off, error)
        step = (wanted - value) * (now - last) / (value - value_last)
        goes_on = np.isfinite(step) & (step != 0)
        if not (goes_on & (error > near)).any():
            break
        last, value_last = now, value
        now = np.where(goes_on, now + step, now)
        value = part.value(arrays, now)
    return np.where(error <= near, best, old)
