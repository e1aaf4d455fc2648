"""From a graph to scalar terms: what one element of each value is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kernelwright.errors import UnsupportedError
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, mean_divisor, op_named
from kernelwright.ir.ranking import is_written_out, ranked_values
from kernelwright.metal.lower.index import Axis, Dynamic, Index, flatten, unflatten, within
from kernelwright.metal.lower.operator import NOUNS, conversion, exponential_for, meaning
from kernelwright.metal.lower.shortcut import (
    NEUTRAL,
    is_place,
    is_shifted,
    mean_name,
    short_power,
    text_of,
)
from kernelwright.metal.lower.term import (
    Literal,
    Ranked,
    Reducer,
    Scanner,
    Term,
    Terms,
    computed,
)
from kernelwright.metal.lower.view import Coordinates, source_coordinates

REDUCED_AXIS = "column"
"""Name of the axis that every reduction runs over."""

_REDUCERS = {
    "sum": (Reducer.SUM, "total"),
    "prod": (Reducer.PRODUCT, "product"),
    "max": (Reducer.MAXIMUM, "maximum"),
    "min": (Reducer.MINIMUM, "minimum"),
    "all": (Reducer.ALL, "every"),
    "any": (Reducer.ANY, "some"),
    "argmax": (Reducer.ARGMAX, "position"),
    "argmin": (Reducer.ARGMIN, "position"),
}
_COMBINING = {"sum": "add", "mean": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""Which binary op a reduction of few elements is made of."""
_SCANNERS = {
    "cumsum": Scanner.SUM,
    "cumprod": Scanner.PRODUCT,
    "cummax": Scanner.MAXIMUM,
    "cummin": Scanner.MINIMUM,
    "logcumsumexp": Scanner.LOGSUMEXP,
}


@dataclass
class Builder:
    """Makes the term of any element of any value of a graph.

    `arrays` names the values that stand in memory, the graph's inputs among them.
    """

    graph: Graph
    arrays: dict[ValueId, str]
    terms: Terms = field(default_factory=Terms)
    made: dict[tuple[ValueId, Coordinates], Term] = field(default_factory=dict)

    def element(self, value: ValueId, coordinates: Coordinates) -> Term:
        """Return the term of one element.

        Raises:
            UnsupportedError: an op on the way is not lowered.
        """
        shape = self.graph.types[value].shape
        places = tuple(Index() if n == 1 else c for c, n in zip(coordinates, shape, strict=True))
        key = (value, places)
        if key not in self.made:
            self.made[key] = self._make(value, places)
        return self.made[key]

    def _make(self, value: ValueId, places: Coordinates) -> Term:
        type_ = self.graph.types[value]
        if value in self.arrays:
            offset = flatten(places, type_.shape)
            return self.terms.load(self.arrays[value], offset, type_.dtype)
        if value in self.graph.constant_of:
            return self._constant(value)
        node = self.graph.nodes[self.graph.producer_of[value]]
        call, op = Call.of(self.graph, node), op_named(node.op)
        if op.kind is Kind.ELEMENTWISE:
            return self._elementwise(node, places)
        if op.kind is Kind.VIEW:
            number = node.outputs.index(value)
            return self.element(node.inputs[0], source_coordinates(node.op, call, number, places))
        if op.kind is Kind.REDUCTION:
            return self._reduction(node, call, places)
        if op.kind is Kind.SCAN:
            return self._scan(node, call, places)
        if node.op in _INDEXING:
            return _INDEXING[node.op](self, node, call, places)
        raise UnsupportedError(f"{node.op} cannot be part of a fused kernel yet; leave it to MLX.")

    def _constant(self, value: ValueId) -> Term:
        constant = self.graph.constant_of[value]
        if constant.type.size != 1:
            raise UnsupportedError(
                f"a constant of type {constant.type} cannot be written into a kernel; "
                "make it an input."
            )
        dtype = computed(constant.type.dtype)
        return self.terms.literal(literal(constant.array.reshape(-1)[0].item(), dtype), dtype)

    def number(self, value: float, dtype: Dtype) -> Term:
        """Return a literal."""
        return self.terms.literal(literal(value, dtype), dtype)

    def _elementwise(self, node: Node, places: Coordinates) -> Term:
        operands = tuple(self.element(v, places) for v in node.inputs)
        result = computed(self.graph.types[node.outputs[0]].dtype)
        if node.op == "cast":
            return self._cast(operands[0], result)
        if node.op == "power" and (short := short_power(operands[1])):
            return self.apply(short, result, "power", operands[0])
        known = meaning(node.op, [operand.dtype for operand in operands], result)
        name = NOUNS.get(node.op, "value")
        return self.apply(known.template, result, name, *operands)

    def _cast(self, operand: Term, result: Dtype) -> Term:
        return self.apply(conversion(operand.dtype, result), result, "converted", operand)

    def apply(self, template: str, dtype: Dtype, name: str, *operands: Term) -> Term:
        """Return an expression over terms; one that changes nothing is its operand."""
        if template == "{0}" or (template, text_of(operands[-1])) in NEUTRAL:
            return operands[0]
        if (template, text_of(operands[-1])) == ("{0} + {1}", "0.0f") and is_place(operands[0]):
            return operands[0]
        if (template, text_of(operands[-1])) == ("{0} * {1}", "-1.0f"):
            return self.apply("-{0}", dtype, "opposite", operands[0])
        return self.terms.apply(template, dtype, name, *operands)

    def _reduction(self, node: Node, call: Call, places: Coordinates) -> Term:
        source = node.inputs[0]
        result = computed(self.graph.types[node.outputs[0]].dtype)
        if is_written_out(self.graph, node, self.ranked):
            return self._written_out(node, call, places)
        if node.op == "softmax":
            return self._softmax(source, places)
        if node.op == "logsumexp":
            return self._logsumexp(source, places)
        axes = call.integers("axes") if "axes" in call.attributes else (call.integer("axis"),)
        if node.op == "mean":
            body, axis = self.visited(Reducer.SUM, source, axes, places)
            total = self.reduce(
                self.terms.reduced(Reducer.SUM, body, axis, dtype=result, name="total")
            )
            divisor = self.terms.place(Index.of(mean_divisor(call)))
            return self.apply("{0} / {1}", result, mean_name(body), total, divisor)
        reducer, name = _REDUCERS[node.op]
        body, axis = self.visited(reducer, source, axes, places)
        return self.reduce(self.terms.reduced(reducer, body, axis, dtype=result, name=name))

    @cached_property
    def ranked(self) -> frozenset[ValueId]:
        """What is made of few ranked elements a row, each a term of its own."""
        return ranked_values(self.graph)

    def _written_out(self, node: Node, call: Call, places: Coordinates) -> Term:
        """Return a reduction of few elements as the expression that it is."""
        source, dtype = node.inputs[0], computed(self.graph.types[node.outputs[0]].dtype)
        count = self.graph.types[source].shape[-1]
        parts = [self.element(source, (*places[:-1], Index.of(i))) for i in range(count)]
        if node.op in ("softmax", "logsumexp"):
            peak = self._folded("maximum", parts)
            total = self._folded("add", [self._shifted(part, peak) for part in parts])
            if node.op == "softmax":
                own = self._shifted(self.element(source, places), peak)
                return self.apply("{0} / {1}", dtype, "probability", own, total)
            log = self.apply("metal::precise::log({0})", dtype, "logarithm", total)
            return self.apply("{0} + {1}", dtype, "logsumexp", log, peak)
        combined = self._folded(_COMBINING[node.op], parts)
        if node.op == "mean":
            divisor = self.number(mean_divisor(call), dtype)
            return self.apply("{0} / {1}", dtype, "mean", combined, divisor)
        return combined

    def _folded(self, op: str, parts: Sequence[Term]) -> Term:
        """Return parts joined by a binary op, from left to right."""
        folded, *rest = parts
        for part in rest:
            known = meaning(op, [folded.dtype, part.dtype], folded.dtype)
            name = "total" if op == "add" else NOUNS[op]
            folded = self.apply(known.template, folded.dtype, name, folded, part)
        return folded

    def _sorted_slice(self, node: Node, call: Call, places: Coordinates) -> Term:
        """Return the element of a rank, or its place, counted from the nearer end of its row."""
        rank = places[-1].constant
        if rank is None:
            raise UnsupportedError(f"{node.op} is read at a computed rank; leave it to MLX.")
        source = node.inputs[0]
        key, axis = self._along(source, (len(places) - 1,), (*places[:-1], Index()))
        first, step = call.integer("start"), call.integer("step")
        last = first + step * (call.integer("count") - 1)
        is_low = max(first, last) <= axis.extent - 1 - min(first, last)
        place = first + step * rank
        return self.terms.ranked(
            key,
            axis,
            place if is_low else axis.extent - 1 - place,
            is_largest_first=not is_low,
            is_place=node.op == "argsorted_slice",
        )

    def _scan(self, node: Node, call: Call, places: Coordinates) -> Term:
        """Return a running value; a kernel reads it only at the place that it visits."""
        along = call.integer("axis") % len(places)
        axis = Axis(REDUCED_AXIS, self.graph.types[node.inputs[0]].shape[along])
        if places[along] != Index.of(axis):
            raise UnsupportedError(
                f"{node.op} is not read in the order in which it runs; split the region there."
            )
        return self.terms.scanned(
            _SCANNERS[node.op],
            self.element(node.inputs[0], places),
            axis,
            is_inclusive=call.flag("inclusive"),
            is_reverse=call.flag("reverse"),
        )

    def reduced_axis(self, length: int) -> tuple[Index, Axis]:
        """Return the place in a row that a reduction visits, and the axis that it runs over."""
        axis = Axis(REDUCED_AXIS, length)
        return Index.of(axis), axis

    def reduce(self, wanted: Term) -> Term:
        """Return what stands for a reduction: itself, unless somebody computed a part of it."""
        return wanted

    def visited(
        self, reducer: Reducer, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Term, Axis]:
        """Return what each step of a reduction takes in, and the axis of the steps."""
        return self._along(source, axes, places)

    def _along(
        self, source: ValueId, axes: tuple[int, ...], places: Coordinates
    ) -> tuple[Term, Axis]:
        """Return the element of `source` that a reduction over `axes` visits, and its axis."""
        shape = self.graph.types[source].shape
        visit, axis = self.reduced_axis(math.prod(shape[a] for a in axes))
        outer = [p for i, p in enumerate(places) if i not in axes]
        if any(axis.name == a.name for place in outer for a in place.axes):
            raise UnsupportedError(
                "a reduction whose result varies along another reduction's axis is not lowered "
                "yet; split the region there."
            )
        ordered = sorted(axes)
        inner = dict(zip(ordered, unflatten(visit, [shape[a] for a in ordered]), strict=True))
        visited = tuple(inner.get(i, place) for i, place in enumerate(places))
        return self.element(source, visited), axis

    def _exponential(
        self, source: ValueId, places: Coordinates, *, drops_nan: bool
    ) -> tuple[Term, Term, Term | None]:
        """Return (shifted exponential at `places`, its sum over the last axis, the maximum).

        There is no maximum where the values were shifted by it before: it would be 0.
        """
        last = len(places) - 1
        body, axis = self._along(source, (last,), (*places[:-1], Index()))
        if is_shifted(body, axis):
            total = self._exponential_total(self._exponential_of(body), axis)
            return self._exponential_of(self.element(source, places)), total, None
        peak = self.terms.reduced(
            Reducer.MAXIMUM,
            body,
            axis,
            dtype=Dtype.FLOAT32,
            name="maximum",
            drops_nan=drops_nan,
        )
        total = self._exponential_total(self._shifted(body, peak), axis)
        return self._shifted(self.element(source, places), peak), total, peak

    def _exponential_total(self, body: Term, axis: Axis) -> Term:
        return self.terms.reduced(Reducer.SUM, body, axis, dtype=Dtype.FLOAT32, name="total")

    def _exponential_of(self, value: Term) -> Term:
        text = f"{exponential_for(self.graph)}({{0}})"
        return self.apply(text, Dtype.FLOAT32, "exponential", value)

    def _shifted(self, value: Term, peak: Term) -> Term:
        difference = self.apply("{0} - {1}", Dtype.FLOAT32, "difference", value, peak)
        return self._exponential_of(difference)

    def _softmax(self, source: ValueId, places: Coordinates) -> Term:
        # A NaN reaches the sum, and with it the whole row.
        exponential, total, _ = self._exponential(source, places, drops_nan=True)
        one = self.number(1.0, Dtype.FLOAT32)
        scale = self.apply("{0} / {1}", Dtype.FLOAT32, "normalizer", one, total)
        return self.apply("{0} * {1}", Dtype.FLOAT32, "probability", exponential, scale)

    def _logsumexp(self, source: ValueId, places: Coordinates) -> Term:
        _, total, peak = self._exponential(source, places, drops_nan=False)
        if peak is None:
            return self.apply("metal::precise::log({0})", Dtype.FLOAT32, "logsumexp", total)
        # An infinite maximum is the answer; subtracting it would give NaN.
        return self.apply(
            "metal::isinf({0}) ? {0} : metal::precise::log({1}) + {0}",
            Dtype.FLOAT32,
            "logsumexp",
            peak,
            total,
        )

    def _arange(self, node: Node, call: Call, places: Coordinates) -> Term:
        dtype = computed(self.graph.types[node.outputs[0]].dtype)
        start, step = call.number("start"), call.number("step")
        place = self.apply(
            conversion(Dtype.UINT32, dtype), dtype, "place", self.terms.place(places[0])
        )
        if step != 1:
            factor = self.number(step, dtype)
            place = self.apply("{0} * {1}", dtype, "place", place, factor)
        if start == 0:
            return place
        return self.apply("{0} + {1}", dtype, "place", place, self.number(start, dtype))

    def _dequantize(self, node: Node, call: Call, places: Coordinates) -> Term:
        """Return a digit of a packed word, scaled and moved as its group says."""
        packed, scales, biases = node.inputs
        bits, (*lead, column) = call.integer("bits"), places
        first = column * bits
        digit = self._digit(packed, lead, first, bits)
        dtype = computed(self.graph.types[node.outputs[0]].dtype)
        level = self.apply(conversion(Dtype.UINT32, dtype), dtype, "level", digit)
        group = (*lead, column // call.integer("group_size"))
        scaled = self.apply("{0} * {1}", dtype, "scaled", level, self.element(scales, group))
        return self.apply("{0} + {1}", dtype, "weight", scaled, self.element(biases, group))

    def _digit(self, packed: ValueId, lead: Sequence[Index], first: Index, bits: int) -> Term:
        """Return the digit that begins at bit `first` of a row of packed words."""
        word = self.element(packed, (*lead, first // 32))
        shift = self.terms.place(first % 32)
        mask = self.number((1 << bits) - 1, Dtype.UINT32)
        moved = self.apply("{0} >> {1}", Dtype.UINT32, "moved", word, shift)
        if 32 % bits:
            # The digit may go on in the next word.
            last = self.element(packed, (*lead, (first + (bits - 1)) // 32))
            both = "uint((ulong({0}) << 32 | {1}) >> {2})"
            moved = self.apply(both, Dtype.UINT32, "moved", last, word, shift)
        return self.apply("{0} & {1}", Dtype.UINT32, "digit", moved, mask)

    def _gather_axis(self, node: Node, call: Call, places: Coordinates) -> Term:
        source, index = node.inputs
        axis = call.integer("axis")
        extent = self.graph.types[source].shape[axis]
        chosen = self.element(index, places)
        if isinstance(chosen, Ranked) and chosen.is_place and axis == len(places) - 1:
            visited = self.element(source, (*places[:-1], Index.of(chosen.axis)))
            if (known := self._ranked_element(chosen, visited)) is not None:
                return known
        place = self.dynamic(chosen, extent)
        return self.element(source, tuple(place if i == axis else p for i, p in enumerate(places)))

    def _ranked_element(self, chosen: Ranked, visited: Term) -> Term | None:
        """Return what stands at a ranked place, if it is the key itself, or its opposite."""
        is_opposite = self.terms.apply("-{0}", visited.dtype, "opposite", visited) is chosen.key
        if visited is not chosen.key and not is_opposite:
            return None
        element = self.terms.ranked(
            chosen.key,
            chosen.axis,
            chosen.rank,
            is_largest_first=chosen.is_largest_first,
            is_place=False,
        )
        return self.apply("-{0}", element.dtype, visited.name, element) if is_opposite else element

    def dynamic(self, term: Term, extent: int) -> Index:
        """Return a computed place below `extent`; a negative one counts from the end.

        Raises:
            UnsupportedError: the place is a number outside the array.
        """
        if isinstance(term, Literal):
            place = int(term.text.rstrip("ul"))
            if not -extent <= place < extent:
                raise UnsupportedError(
                    f"the place {place} is outside an axis of {extent}; leave the region to MLX."
                )
            return Index.of(place % extent)
        if term.dtype.value.startswith("int"):
            template = f"{{0}} < 0 ? {{0}} + {extent} : {{0}}"
            term = self.apply(template, term.dtype, "place", term)
        return Index(((Dynamic(term.number, extent, term.axes), 1),))

    def _gather(self, node: Node, call: Call, places: Coordinates) -> Term:
        source, *indices = node.inputs
        shape = self.graph.types[source].shape
        lead = len(places) - len(shape)
        windows = list(places[lead:])
        for axis, index in zip(call.integers("axes"), indices, strict=True):
            rank = len(self.graph.types[index].shape)
            start = self.element(index, places[lead - rank : lead])
            windows[axis] = windows[axis] + self.dynamic(start, shape[axis])
        return self.element(source, tuple(windows))

    def _concatenate(self, node: Node, call: Call, places: Coordinates) -> Term:
        axis, stop = call.integer("axis"), 0
        first, last = places[axis].bounds
        edges: list[int] = []
        arms: list[Term] = []
        for value in node.inputs:
            start, stop = stop, stop + self.graph.types[value].shape[axis]
            if stop <= first or start > last:
                continue
            arms.append(self.element(value, moved(within(places, axis, start, stop), axis, -start)))
            edges.append(stop)
        return self.terms.choose(places[axis], edges[:-1], arms)

    def _pad(self, node: Node, call: Call, places: Coordinates) -> Term:
        source, fill = node.inputs
        shape = self.graph.types[source].shape
        sides = list(zip(call.integers("axes"), call.integers("low"), strict=True))
        inside = places
        for axis, low in sides:
            inside = moved(within(inside, axis, low, low + shape[axis]), axis, -low)
        filler = self.element(fill, ())
        term = self.element(source, inside)
        for axis, low in sides:
            edges, arms = [low + shape[axis]], [term, filler]
            if low:
                edges, arms = [low, *edges], [filler, *arms]
            if len(edges) > 1 or self.graph.types[node.outputs[0]].shape[axis] > edges[0]:
                term = self.terms.choose(places[axis], edges, arms)
        return term

    def _slice_update(self, node: Node, call: Call, places: Coordinates) -> Term:
        whole, part = node.inputs
        if call.text("reduce") != "none" or set(call.integers("strides")) != {1}:
            raise UnsupportedError("slice_update that strides or combines is not lowered yet.")
        shape = self.graph.types[whole].shape
        bounds = list(zip(call.integers("start"), call.integers("stop"), strict=True))
        inside = places
        for axis, (start, stop) in enumerate(bounds):
            inside = moved(within(inside, axis, start, stop), axis, -start)
        kept, term = self.element(whole, places), self.element(part, inside)
        for axis, (start, stop) in enumerate(bounds):
            edges, arms = [stop], [term, kept]
            if start:
                edges, arms = [start, *edges], [kept, *arms]
            if stop == shape[axis]:
                edges, arms = edges[:-1], arms[:-1]
            term = self.terms.choose(places[axis], edges, arms)
        return term


def moved(places: Coordinates, axis: int, by: int) -> Coordinates:
    """Return coordinates with one of them moved."""
    return tuple(p + by if i == axis else p for i, p in enumerate(places))


_INDEXING = {
    "arange": Builder._arange,
    "concatenate": Builder._concatenate,
    "dequantize": Builder._dequantize,
    "gather": Builder._gather,
    "gather_axis": Builder._gather_axis,
    "pad": Builder._pad,
    "sorted_slice": Builder._sorted_slice,
    "argsorted_slice": Builder._sorted_slice,
    "slice_update": Builder._slice_update,
}


def literal(value: float, dtype: Dtype) -> str:
    """Write a number as MSL of a computed dtype, exact to the last bit."""
    if dtype is Dtype.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        suffix = {Dtype.UINT32: "u", Dtype.UINT64: "ul", Dtype.INT64: "l"}.get(dtype, "")
        return f"{int(value)}{suffix}"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = str(np.float32(value))
    return f"{text}f" if any(c in text for c in ".en") else f"{text}.0f"
