"""A graph of reductions cut into graphs that each keep a GPU busy.

Reductions are divided into parts along their longest axis. For each level of them there is a
graph of the parts' results and one that combines those; the last graphs compute the outputs from
what all reductions gave. A variance needs no second level: parts leave their mean and the sum of
squares around it, which combine exactly (Chan, Golub, LeVeque: "Updating formulae and a pairwise
algorithm for computing sample variances", 1979).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.family.reducer import REDUCERS
from kernelwright.metal.family.row_value import merged, shared_values

_FEW_INNER = 64
"""Elements of other reduced axes that are left to the combining stage, so as to read in order."""


@dataclass(frozen=True)
class Stage:
    """A graph between named arrays."""

    role: Literal["partial", "combine", "map"]
    graph: Graph
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class _Reduction:
    """A reduction with the axes of what it reads, adjacent reduced ones taken as one."""

    node: Node
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    longest: int
    """The axis, among `axes`, that is divided into parts."""
    mean: ValueId | None = None
    """The mean around which the squares are summed, in a variance."""

    @property
    def is_local(self) -> bool:
        """True where the parts also reduce the other axes."""
        inner = math.prod(self.shape[a] for a in self.axes if a != self.longest)
        is_apart = len(self.axes) > 1
        return not (is_apart and inner <= _FEW_INNER)

    def parts(self, count: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the shape in parts, the axes that a part reduces, and those that join parts."""
        at, extent = self.longest, self.shape[self.longest]
        shape = (*self.shape[:at], count, extent // count, *self.shape[at + 1 :])
        others = [a + (a > at) for a in self.axes if a != at]
        if self.is_local:
            return shape, tuple(sorted((at + 1, *others))), (at,)
        return shape, (at + 1,), tuple(sorted((at, *others)))


def part_counts(graph: Graph, wanted: Sequence[int]) -> list[int]:
    """Return into how many parts the reductions divide evenly, near to each wanted number."""
    extents = {r.shape[r.longest] for r in _reductions(merged(graph)).values()}
    common = math.gcd(*extents) if extents else 1
    divisors = [n for n in range(2, min(common, 1 << 14) + 1) if common % n == 0]
    near = (min(divisors, key=lambda n: abs(math.log2(n / w))) for w in wanted if divisors)
    return list(dict.fromkeys(near))


def cut(
    graph: Graph,
    names: Mapping[ValueId, str],
    outputs: Sequence[str],
    count: int,
    *,
    writes_early: bool = False,
) -> list[Stage]:
    """Return the stages of a row-wise graph, each reduction in `count` parts.

    `names` are those of the graph's inputs. With `writes_early`, outputs that wait for no reduction
    are written by the stage that reads the elements for the first ones.

    Raises:
        UnsupportedError: a reduction does not divide so.
    """
    whole = merged(graph)
    arrays = dict(zip(whole.inputs, (names[v] for v in graph.inputs), strict=True))
    return list(_Cutter(whole, arrays, count, writes_early).stages(outputs))


def _reductions(graph: Graph) -> dict[ValueId, _Reduction]:
    found: dict[ValueId, _Reduction] = {}
    for node in graph.nodes:
        if op_named(node.op).kind is not Kind.REDUCTION:
            continue
        if node.op not in REDUCERS and node.op != "mean":
            raise UnsupportedError(f"{node.op} is not divided into parts yet.")
        found[node.outputs[0]] = _described(graph, node, found)
    return found


def _described(graph: Graph, node: Node, before: Mapping[ValueId, _Reduction]) -> _Reduction:
    call = Call.of(graph, node)
    full, reduced = call.inputs[0].shape, set(call.integers("axes"))
    shape: list[int] = []
    axes: list[int] = []
    for axis, extent in enumerate(full):
        is_reduced = axis in reduced
        if is_reduced and axis - 1 in reduced and axes:
            shape[-1] *= extent
            continue
        if is_reduced:
            axes.append(len(shape))
        shape.append(extent)
    if not axes:
        raise UnsupportedError(f"{node.op} over no axis has no parts.")
    longest = max(axes, key=lambda axis: shape[axis])
    mean = _centre(graph, node, before)
    return _Reduction(node, tuple(shape), tuple(axes), longest, mean)


def _centre(graph: Graph, node: Node, before: Mapping[ValueId, _Reduction]) -> ValueId | None:
    """Return the mean of x where a node sums or averages (x - mean)^2 over the mean's axes."""
    squared = _producer(graph, node.inputs[0], "square")
    centred = None if squared is None else _producer(graph, squared.inputs[0], "subtract")
    if centred is None or node.op not in ("sum", "mean"):
        return None
    value = _repeated(graph, centred.inputs[1])
    mean = before.get(value) if value is not None else None
    if value is None or mean is None or mean.node.op != "mean" or mean.mean is not None:
        return None
    call = Call.of(graph, mean.node)
    is_plain = call.integer("ddof") == 0
    is_same = call.integers("axes") == Call.of(graph, node).integers("axes")
    is_of_it = mean.node.inputs[0] == centred.inputs[0]
    return value if is_plain and is_same and is_of_it else None


def _repeated(graph: Graph, value: ValueId) -> ValueId | None:
    """Return what a value repeats along axes, with its axes of size one as before a reshape."""
    spread = _producer(graph, value, "broadcast")
    if spread is None:
        return None
    source = spread.inputs[0]
    squeezed = _producer(graph, source, "reshape")
    if squeezed is None:
        return source
    shape, kept = graph.types[source].shape, graph.types[squeezed.inputs[0]].shape
    is_in_place = (1,) * (len(kept) - len(shape)) + shape == kept
    return squeezed.inputs[0] if is_in_place else source


def _producer(graph: Graph, value: ValueId, op: str) -> Node | None:
    index = graph.producer_of.get(value)
    return graph.nodes[index] if index is not None and graph.nodes[index].op == op else None


class _Cutter:
    """Writes the graphs of the stages one after the other."""

    def __init__(
        self, graph: Graph, arrays: dict[ValueId, str], count: int, writes_early: bool
    ) -> None:
        self._graph = graph
        self._writes_early = writes_early
        self._arrays = arrays
        """What stands in memory: inputs, and the reductions of the stages so far."""
        self._types = {v: graph.types[v] for v in graph.inputs}
        self._count = count
        self._reductions = _reductions(graph)
        if not self._reductions:
            raise UnsupportedError("it reduces nothing, so there is nothing to do in stages.")
        for reduction in self._reductions.values():
            if reduction.shape[reduction.longest] % count:
                raise UnsupportedError(
                    f"{reduction.shape[reduction.longest]} elements do not divide into {count} "
                    "parts; take a divisor."
                )
        self._prefix = "stage" if any("part_" in n for n in arrays.values()) else "part"

    def stages(self, outputs: Sequence[str]) -> Iterator[Stage]:
        levels = self._levels()
        last = max(levels.values(), default=0)
        rows = min(self._graph.types[v].size for v in self._reductions)
        of_rows = [i for i, v in enumerate(self._graph.outputs) if self._size(v) == rows]
        early = [i for i in self._free_outputs() if self._writes_early and i not in of_rows]
        for level in range(1, last + 1):
            found = [r for v, r in self._reductions.items() if levels[v] == level]
            first = early if level == 1 else ()
            partial = self._partial(found, level, {i: outputs[i] for i in first})
            yield partial
            places = of_rows if level == last else ()
            yield self._combine(found, level, partial, {i: outputs[i] for i in places})
        if others := [i for i in range(len(outputs)) if i not in (*of_rows, *early)]:
            yield self._map(others, outputs)

    def _free_outputs(self) -> list[int]:
        """Return the positions of outputs that wait for no reduction."""
        waiting = set(self._reductions)
        for node in self._graph.nodes:
            if waiting.intersection(node.inputs):
                waiting.update(node.outputs)
        return [i for i, v in enumerate(self._graph.outputs) if v not in waiting]

    def _size(self, value: ValueId) -> int:
        return self._graph.types[value].size

    def _levels(self) -> dict[ValueId, int]:
        """Return for each reduction after how many others it can begin, itself included."""
        level: dict[ValueId, int] = {}
        for node in self._graph.nodes:
            below = max((level.get(v, 0) for v in node.inputs), default=0)
            for value in node.outputs:
                found = self._reductions.get(value)
                if found is None:
                    level[value] = below
                else:
                    level[value] = level[found.mean] if found.mean is not None else below + 1
        return {v: level[v] for v in self._reductions}

    def _partial(
        self, found: Sequence[_Reduction], level: int, outputs: Mapping[int, str]
    ) -> Stage:
        """Return the stage of the parts' results, with the outputs that it also writes."""
        copy = _Copy(self._graph, self._arrays, self._types)
        results: list[ValueId] = []
        for reduction in found:
            source = reduction.node.inputs[0]
            if reduction.mean is None:
                results.append(_part(copy, reduction, copy.value(source), self._count))
            else:
                squared = _producer(self._graph, source, "square")
                assert squared is not None
                centred = _producer(self._graph, squared.inputs[0], "subtract")
                assert centred is not None
                x = copy.value(centred.inputs[0])
                results += _part_around_mean(copy, reduction, x, self._count)
        writes = tuple(f"{self._prefix}_{level}_{i}" for i in range(len(results)))
        results += [copy.value(self._graph.outputs[place]) for place in outputs]
        return copy.stage("partial", results, (*writes, *outputs.values()))

    def _combine(
        self, found: Sequence[_Reduction], level: int, partial: Stage, outputs: Mapping[int, str]
    ) -> Stage:
        """Return the stage that joins parts, with the outputs of a number a row, if any."""
        copy = _Copy(self._graph, dict(self._arrays), dict(self._types))
        parts = [
            copy.array(name, type_)
            for name, type_ in zip(partial.writes, partial.graph.output_types, strict=True)
            if name.startswith(f"{self._prefix}_")
        ]
        results: list[ValueId] = []
        writes: list[str] = []
        rest = iter(parts)
        wholes: dict[ValueId, ValueId] = {}
        for reduction in found:
            joined = _joined if reduction.mean is None else _joined_squares
            parts = [next(rest)] if reduction.mean is None else [next(rest), next(rest)]
            wholes[reduction.node.outputs[0]] = joined(copy, reduction, parts, self._count)
        for value, whole in wholes.items():
            made = copy.builder.apply("reshape", whole, shape=self._graph.types[value].shape)
            copy.define(value, made)
        for place, value in enumerate(self._read_later(list(wholes), level, outputs)):
            name = f"{self._prefix}_{level}_whole_{place}"
            results.append(copy.in_float(copy.value(value)))
            writes.append(name)
            self._arrays[value], self._types[value] = name, copy.builder.types[results[-1]]
        for place, name in outputs.items():
            results.append(copy.value(self._graph.outputs[place]))
            writes.append(name)
        return copy.stage("combine", results, tuple(writes))

    def _read_later(
        self, joined: Sequence[ValueId], level: int, outputs: Collection[int]
    ) -> list[ValueId]:
        """Return what the stages after the one that joins reductions' parts read of them."""
        levels = self._levels()
        later = [v for i, v in enumerate(self._graph.outputs) if i not in outputs]
        later += [r.node.inputs[0] for v, r in self._reductions.items() if levels[v] > level]
        return shared_values(self._graph, joined, self._arrays, later)

    def _map(self, places: Sequence[int], outputs: Sequence[str]) -> Stage:
        copy = _Copy(self._graph, self._arrays, self._types)
        results = [copy.value(self._graph.outputs[place]) for place in places]
        return copy.stage("map", results, tuple(outputs[place] for place in places))


class _Copy:
    """Copies what some values need of a graph, from the arrays that stand in memory."""

    def __init__(
        self, graph: Graph, arrays: Mapping[ValueId, str], types: Mapping[ValueId, TensorType]
    ) -> None:
        self.builder = GraphBuilder(merge=True)
        self._graph, self._arrays, self._types = graph, arrays, types
        self._made: dict[ValueId, ValueId] = {}
        self._read: dict[ValueId, str] = {}

    def array(self, name: str, type_: TensorType) -> ValueId:
        """Return the value of an array in memory."""
        value = self.builder.value(type_)
        self._read[value] = name
        return value

    def value(self, wanted: ValueId) -> ValueId:
        """Return the copy of a value."""
        needed, waiting = set[ValueId](), [wanted]
        while waiting:
            value = waiting.pop()
            if value in needed or value in self._made:
                continue
            needed.add(value)
            if value not in self._arrays and value not in self._graph.constant_of:
                waiting += self._graph.nodes[self._graph.producer_of[value]].inputs
        for value in needed:
            if value in self._arrays:
                self._made[value] = self._given(value)
            elif value in self._graph.constant_of:
                self._made[value] = self.builder.constant(self._graph.constant_of[value])
        for node in self._graph.nodes:
            if not needed.intersection(node.outputs) or node.outputs[0] in self._made:
                continue
            types = [self._graph.types[v] for v in node.outputs]
            inputs = [self._made[v] for v in node.inputs]
            made = self.builder.add(node.op, inputs, types, node.attributes)
            self._made.update(zip(node.outputs, made, strict=True))
        return self._made[wanted]

    def _given(self, value: ValueId) -> ValueId:
        return self._as_in_graph(value, self.array(self._arrays[value], self._types[value]))

    def define(self, value: ValueId, made: ValueId) -> None:
        """Let a value of the graph be one that this stage computed."""
        self._made[value] = self._as_in_graph(value, made)

    def _as_in_graph(self, value: ValueId, made: ValueId) -> ValueId:
        """Return what a stage kept in float as what the graph has there; it is not rounded."""
        type_ = self._graph.types[value]
        if self.builder.types[made].dtype is type_.dtype:
            return made
        return self.builder.add("cast", [made], [type_], [("dtype", type_.dtype)])[0]

    def in_float(self, value: ValueId) -> ValueId:
        """Return a value as float32 where it is a shorter float: a part's result is not rounded."""
        type_ = self.builder.types[value]
        if not type_.dtype.is_float or type_.dtype is Dtype.FLOAT32:
            return value
        wide = TensorType(type_.shape, Dtype.FLOAT32)
        return self.builder.add("cast", [value], [wide], [("dtype", Dtype.FLOAT32)])[0]

    def number(self, value: float, like: ValueId) -> ValueId:
        """Return a number in the shape of another value."""
        type_ = self.builder.types[like]
        constant = self.builder.constant(
            Constant.of(np.array(value, type_.dtype.numpy), type_.dtype)
        )
        return self.builder.apply("broadcast", constant, shape=type_.shape)

    def reduced(self, op: str, value: ValueId, axes: tuple[int, ...]) -> ValueId:
        """Return a reduction that keeps its axes."""
        type_ = self.builder.types[value]
        shape = tuple(1 if i in axes else n for i, n in enumerate(type_.shape))
        return self.builder.add(op, [value], [TensorType(shape, type_.dtype)], [("axes", axes)])[0]

    def stage(
        self,
        role: Literal["partial", "combine", "map"],
        results: Sequence[ValueId],
        writes: tuple[str, ...],
    ) -> Stage:
        """Return the graph of some results; arrays that nothing reads are left out."""
        bare = replace(self._graph, names=(), keywords=(), turns=())
        read = set(results)
        for node in reversed(self.builder.nodes):
            if read.intersection(node.outputs):
                read.update(node.inputs)
        inputs = [v for v in self._read if v in read]
        graph = self.builder.finish(inputs, results, bare)
        return Stage(role, graph, tuple(self._read[v] for v in inputs), writes)


def _sizes(reduction: _Reduction) -> int:
    return math.prod(reduction.shape[a] for a in reduction.axes)


def _part(copy: _Copy, reduction: _Reduction, source: ValueId, count: int) -> ValueId:
    shape, inner, _ = reduction.parts(count)
    parted = copy.builder.apply("reshape", copy.in_float(source), shape=shape)
    op = "sum" if reduction.node.op == "mean" else reduction.node.op
    return copy.reduced(op, parted, inner)


def _part_around_mean(
    copy: _Copy, reduction: _Reduction, x: ValueId, count: int
) -> tuple[ValueId, ValueId]:
    """Return each part's mean less some number, and the sum of squares around it.

    Halves are walked once, around the part's first element: their variance has no digits that
    the cancellation of as many terms could take. Floats are walked twice, and all parts count
    from the first element of the first one: far from zero, rounded means would differ too much.
    """
    shape, inner, outer = reduction.parts(count)
    is_short = copy.builder.types[x].dtype.itemsize < Dtype.FLOAT32.itemsize
    is_short |= _is_widened(copy, x)
    parted = copy.builder.apply("reshape", copy.in_float(x), shape=shape)
    length = math.prod(shape[a] for a in inner)

    def less(minuend: ValueId, subtrahend: ValueId) -> ValueId:
        shape = copy.builder.types[minuend].shape
        spread = copy.builder.apply("broadcast", subtrahend, shape=shape)
        return copy.builder.apply("subtract", minuend, spread)

    def mean_of(terms: ValueId) -> tuple[ValueId, ValueId]:
        total = copy.reduced("sum", terms, inner)
        return total, copy.builder.apply("divide", total, copy.number(length, total))

    def squares_of(terms: ValueId) -> ValueId:
        return copy.reduced("sum", copy.builder.apply("square", terms), inner)

    everywhere = {*inner, *outer}
    first = _first(copy, parted, everywhere)
    if not is_short:
        apart = less(parted, first)
        _, mean = mean_of(apart)
        return mean, squares_of(less(apart, mean))
    own = _first(copy, parted, inner)
    apart = less(parted, own)
    total, mean = mean_of(apart)
    cancelled = copy.builder.apply("multiply", total, mean)
    squares = copy.builder.apply("subtract", squares_of(apart), cancelled)
    return copy.builder.apply("add", less(own, first), mean), squares


def _first(copy: _Copy, value: ValueId, axes: Collection[int]) -> ValueId:
    """Return the first element along some axes."""
    shape = copy.builder.types[value].shape
    stop = tuple(1 if i in axes else n for i, n in enumerate(shape))
    start, steps = (0,) * len(shape), (1,) * len(shape)
    return copy.builder.apply("slice", value, start=start, stop=stop, strides=steps)


def _is_widened(copy: _Copy, value: ValueId) -> bool:
    """Say whether a float is a shorter one, cast and moved only."""
    while (node := copy.builder.producer(value)) is not None:
        if node.op == "cast":
            return copy.builder.types[node.inputs[0]].dtype.itemsize < Dtype.FLOAT32.itemsize
        if op_named(node.op).kind is not Kind.VIEW:
            return False
        value = node.inputs[0]
    return False


def _joined(copy: _Copy, reduction: _Reduction, parts: Sequence[ValueId], count: int) -> ValueId:
    _, _, outer = reduction.parts(count)
    node, (part,) = reduction.node, parts
    joined = copy.reduced("sum" if node.op == "mean" else node.op, part, outer)
    if node.op != "mean":
        return joined
    return copy.builder.apply("divide", joined, copy.number(_divisor(reduction), joined))


def _joined_squares(
    copy: _Copy, reduction: _Reduction, parts: Sequence[ValueId], count: int
) -> ValueId:
    """Return the sum of squares around the common mean, or its mean."""
    shape, inner, outer = reduction.parts(count)
    means, squares = parts
    length, number = (math.prod(shape[a] for a in axes) for axes in (inner, outer))
    total = copy.reduced("sum", means, outer)
    mean = copy.builder.apply("divide", total, copy.number(number, total))
    spread = copy.builder.apply("broadcast", mean, shape=copy.builder.types[means].shape)
    apart = copy.builder.apply("square", copy.builder.apply("subtract", means, spread))
    among = copy.reduced("sum", apart, outer)
    weighted = copy.builder.apply("multiply", among, copy.number(length, among))
    joined = copy.builder.apply("add", copy.reduced("sum", squares, outer), weighted)
    if reduction.node.op != "mean":
        return joined
    return copy.builder.apply("divide", joined, copy.number(_divisor(reduction), joined))


def _divisor(reduction: _Reduction) -> int:
    ddof = dict(reduction.node.attributes)["ddof"]
    assert isinstance(ddof, int)
    return _sizes(reduction) - ddof
