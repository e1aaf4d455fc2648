"""Attention as terms: what queries, keys, scores and outputs are made of, element by element."""

from dataclasses import dataclass, field

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.metal.family.contraction import trouble_with_attention
from kernelwright.metal.kernel_ir.expression import Apply, Expr, Store
from kernelwright.metal.kernel_ir.index import Index, flatten, unflatten
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp
from kernelwright.metal.lower.program.signature import RESERVED, Signature
from kernelwright.metal.lower.term.build import Builder
from kernelwright.metal.lower.term.operator import stores_floats
from kernelwright.metal.lower.term.view import Coordinates, reshaped

_WORDS = """
    group block position part chunk slot feature query peak total attended score weight kept
    raised last share keys earliest entry result place partial_peak partial_total partial_value
    row_peak row_total value_sum own_query own_key own_position first_lane turn set products weights
    shares shared is_higher scaled
"""
TAKEN = (RESERVED - {"k"}) | frozenset(_WORDS.split())
"""Words that an attention kernel writes itself."""
RESERVED_HERE = TAKEN | {"element", "product"}
"""Words that no array of an attention kernel can be called."""
HIDDEN = "-FLT_MAX"
"""The score of what a mask hides: finite, so that a row of them is uniform, as in MLX."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The dimensions of one attention op."""

    batch: int
    heads: int
    queries: int
    key_heads: int
    keys: int
    head: int
    """Features of a query and of a key."""
    width: int
    """Features of a value."""
    window: int = 0
    """Distance from which on a query sees no key; 0 where it sees all."""

    @classmethod
    def of(cls, call: Call) -> "Sizes":
        """Read them from the op's operands."""
        batch, heads, queries, head = call.inputs[0].shape
        _, key_heads, keys, width = call.inputs[2].shape
        window = call.integer("window")
        return cls(batch, heads, queries, key_heads, keys, head, width, window)

    @property
    def groups(self) -> int:
        """Key heads over all batches."""
        return self.batch * self.key_heads

    @property
    def rows(self) -> int:
        """Queries that share a key head."""
        return self.heads // self.key_heads * self.queries

    @property
    def reach(self) -> int:
        """Keys before the last that any query may see; 0 where that is all of them."""
        return self.window + self.queries - 1 if self.window else 0

    @property
    def seen(self) -> int:
        """Keys that any query may see."""
        return min(self.keys, self.reach or self.keys)


@dataclass
class Attended(Builder):
    """Builds the terms around the one attention op of a graph.

    A row is a query of some head of some batch: `flat` counts all of them, those of a key head
    side by side.
    """

    node: Node = field(init=False)
    call: Call = field(init=False)
    sizes: Sizes = field(init=False)
    home: Coordinates = ()
    """Where the attended element stands that the outputs are made of."""
    held: Expr | None = None

    def __post_init__(self) -> None:
        """Find the op."""
        self.node = next(node for node in self.graph.nodes if node.op == "attention")
        self.call = Call.of(self.graph, self.node)
        self.sizes = Sizes.of(self.call)

    @classmethod
    def of(cls, graph: Graph, signature: Signature) -> "Attended":
        """Return the builder of a graph.

        Raises:
            UnsupportedError: the graph is not of this family.
        """
        if reason := trouble_with_attention(graph):
            raise UnsupportedError(f"{reason}; leave it to MLX.")
        return cls(graph, signature.arrays)

    def query(self, flat: Index, feature: Index) -> Expr:
        """Return an element of a query."""
        size = self.sizes
        places = (*unflatten(flat, (size.batch, size.heads, size.queries)), feature)
        return self.element(self.node.inputs[0], places)

    def scaled_query(self, flat: Index, feature: Index) -> Expr:
        """Return an element of a query times the attention's scale."""
        return self._times(self.query(flat, feature), self.call.number("scale"), "scaled")

    def _times(self, term: Expr, factor: float, name: str) -> Expr:
        number = self.number(factor, Dtype.FLOAT32)
        return self.apply(ScalarOp.MULTIPLY, Dtype.FLOAT32, name, term, number)

    def key(self, group: Index, position: Index, feature: Index) -> Expr:
        """Return an element of a key."""
        return self._cached(1, group, position, feature)

    def value(self, group: Index, position: Index, feature: Index) -> Expr:
        """Return an element of a value."""
        return self._cached(2, group, position, feature)

    def _cached(self, operand: int, group: Index, position: Index, feature: Index) -> Expr:
        places = unflatten(group, (self.sizes.batch, self.sizes.key_heads))
        return self.element(self.node.inputs[operand], (*places, position, feature))

    def factored_key(self, group: Index, position: Index, feature: Index) -> tuple[Expr, Expr]:
        """Split an element of a key into what varies along positions and a factor of all of them.

        As in a cache of small integers that has a scale a feature: a query takes it once. What an
        infinite scale makes of a product stays the same, as it would not in sums over positions.
        """
        element = self.key(group, position, feature)
        if isinstance(element, Apply) and element.op == ScalarOp.MULTIPLY:
            left, right = element.arguments
            for varying, factor in ((left, right), (right, left)):
                if varying.axes & position.axes and not factor.axes & position.axes:
                    return varying, factor
        return element, self.number(1.0, Dtype.FLOAT32)

    def score(
        self, product: Expr, flat: Index, position: Index, *, is_scaled: bool = False
    ) -> Expr:
        """Return the score of a query and a key from their product: scaled, capped, masked."""
        size = self.sizes
        batch, head, query = unflatten(flat, (size.batch, size.heads, size.queries))
        score = self._capped(product, 1.0 if is_scaled else self.call.number("scale"))
        if seen := self._in_sight(query, position):
            # What positions hide is not there at all; what a mask hides takes part.
            away = self.terms.literal("-INFINITY", Dtype.FLOAT32)
            score = self.apply(ScalarOp.SELECT, Dtype.FLOAT32, "score", seen, score, away)
        for mask in self._masks:
            shape = self.graph.types[mask].shape
            places = (batch, head, query, position)[4 - len(shape) :]
            element = self.element(mask, places)
            if element.dtype is Dtype.BOOL:
                score = self._shown(element, score)
            elif isinstance(element, Apply) and element.op == ScalarOp.NEGATIVE:
                taken = element.arguments[0]
                score = self.apply(ScalarOp.SUBTRACT, Dtype.FLOAT32, "score", score, taken)
            else:
                score = self.apply(ScalarOp.ADD, Dtype.FLOAT32, "score", score, element)
        return score

    def _in_sight(self, here: Index, position: Index) -> Expr | None:
        """Return whether a query sees a key from where it stands; one query sees all it visits.

        The last query stands at the last key. Both sides count from where neither is negative.
        """
        if self.sizes.queries == 1:
            return None
        if self.sizes.queries != self.sizes.keys:
            here, position = here + self.sizes.keys, position + self.sizes.queries
        window, is_causal = self.call.integer("window"), self.call.flag("is_causal")
        pairs: list[tuple[ScalarOp, Index, Index]] = []
        if is_causal:
            pairs.append((ScalarOp.LESS_EQUAL, position, here))
        if window:
            pairs.append((ScalarOp.GREATER, position + window, here))
        if window and not is_causal:
            pairs.append((ScalarOp.LESS, position, here + window))
        seen: Expr | None = None
        for op, left, right in pairs:
            places = self.terms.place(left), self.terms.place(right)
            one = self.apply(op, Dtype.BOOL, "is_seen", *places)
            seen = (
                one
                if seen is None
                else self.apply(ScalarOp.LOGICAL_AND, Dtype.BOOL, "is_seen", seen, one)
            )
        return seen

    def _capped(self, product: Expr, scale: float) -> Expr:
        cap = self.call.number("soft_cap")
        if not cap:
            return self._times(product, scale, "scaled")
        part = self._times(product, scale / cap, "part")
        is_fast = not stores_floats(self.graph)
        bent = self.apply(ScalarOp.TANH, Dtype.FLOAT32, "bent", part, is_fast=is_fast)
        return self._times(bent, cap, "capped")

    def _shown(self, seen: Expr, score: Expr) -> Expr:
        hidden = self.terms.literal(HIDDEN, Dtype.FLOAT32)
        return self.apply(ScalarOp.SELECT, Dtype.FLOAT32, "score", seen, score, hidden)

    @property
    def _masks(self) -> tuple[ValueId, ...]:
        return self.node.inputs[3 : len(self.node.inputs) - self.call.flag("has_sinks")]

    def sink(self, flat: Index) -> Expr | None:
        """Return the logit that takes weight of a row and is thrown away, if there is one."""
        if not self.call.flag("has_sinks"):
            return None
        size = self.sizes
        _, head, _ = unflatten(flat, (size.batch, size.heads, size.queries))
        return self.element(self.node.inputs[-1], (head,))

    def stores(self, signature: Signature, flat: Index, column: Index, held: Expr) -> list[Store]:
        """Return what is written of one attended element, which `held` stands for.

        Raises:
            UnsupportedError: an output is no elementwise function of it.
        """
        size = self.sizes
        self.held = held
        self.home = (*unflatten(flat, (size.batch, size.heads, size.queries)), column)
        reached = self._reached()
        stores = []
        for value, (name, type_) in zip(self.graph.outputs, signature.outputs, strict=True):
            if value not in reached:
                raise UnsupportedError(f"the output {name} does not come from the attention.")
            places = reached[value]
            term = self.element(value, places)
            stores.append(Store(name, flatten(places, type_.shape), term, type_.dtype))
        return stores

    def _reached(self) -> dict[ValueId, Coordinates]:
        """Follow the attended element through what reads it."""
        reached = {self.node.outputs[0]: self.home}
        for node in self.graph.nodes:
            found = {
                _onward(node, self.graph.types[v], self.graph.types[node.outputs[0]], reached[v])
                for v in node.inputs
                if v in reached
            }
            if len(found) > 1:
                raise UnsupportedError(f"{node.op} joins different parts of the attention.")
            reached.update(dict.fromkeys(node.outputs, *found) if found else {})
        return reached

    def _make(self, value: ValueId, places: Coordinates) -> Expr:
        if value != self.node.outputs[0]:
            return super()._make(value, places)
        if self.held is None or places != self.home:
            raise UnsupportedError("the attention is read elsewhere than where it is made.")
        return self.held


def _onward(node: Node, before: TensorType, after: TensorType, places: Coordinates) -> Coordinates:
    if op_named(node.op).kind is Kind.ELEMENTWISE:
        return places
    if node.op == "reshape":
        return reshaped(places, before.shape, after.shape)
    if node.op == "transpose":
        axes = dict(node.attributes)["axes"]
        assert isinstance(axes, tuple)
        return tuple(places[axis] for axis in axes if isinstance(axis, int))
    raise UnsupportedError(f"{node.op} of an attention's result is not lowered.")
