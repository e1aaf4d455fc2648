"""What a kernel computes for one element: an interned graph of scalar terms."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.index import Axis, Index


class Reducer(StrEnum):
    """How a reduction combines two values."""

    SUM = "sum"
    PRODUCT = "product"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    ALL = "all"
    ANY = "any"
    ARGMAX = "argmax"
    ARGMIN = "argmin"


@dataclass(frozen=True, eq=False)
class Expr:
    """A scalar expression with the type it is computed in; two equal terms are one object.

    Every floating dtype is computed in float32, integers and bool in their own type.
    """

    dtype: Dtype
    name: str
    """What a person would call it; the writer makes it unique."""
    number: int
    """Its place in the order of making: operands come first."""

    @property
    def operands(self) -> tuple["Expr", ...]:
        """The terms it is made of."""
        return ()

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The loop axes along which it varies."""
        return frozenset(a for operand in self.operands for a in operand.axes)


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A number known at lowering, as MSL text."""

    text: str


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """One element of an input, at a row-major offset."""

    array: str
    offset: Index
    stored: Dtype
    places: tuple[Expr, ...] = ()
    """The terms that the offset is computed from."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The places."""
        return self.places

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes of the offset."""
        return self.offset.axes


@dataclass(frozen=True, eq=False)
class IndexValue(Expr):
    """An index as a value, as `arange` needs it."""

    index: Index
    places: tuple[Expr, ...] = ()
    """The terms that the index is computed from."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The places."""
        return self.places

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes of the index."""
        return self.index.axes


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar op over operands, to the dtype of the term."""

    op: str
    """A `ScalarOp`, or the name of an elementwise op of the graph."""
    arguments: tuple[Expr, ...]
    is_fast: bool = False
    """True where errors of a few roundings of float are allowed."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The arguments."""
        return self.arguments


@dataclass(frozen=True, eq=False)
class Switch(Expr):
    """One of several terms, by where `place` is: the first whose edge is above it, or the last.

    Only the chosen one is computed, so that the others may point outside their arrays.
    """

    place: Index
    edges: tuple[int, ...]
    arms: tuple[Expr, ...]
    places: tuple[Expr, ...] = ()
    """The terms that the place is computed from."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The places and the arms."""
        return (*self.places, *self.arms)

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes of the place and of the arms."""
        return self.place.axes | {a for arm in self.arms for a in arm.axes}


@dataclass(frozen=True, eq=False)
class ReduceExpr(Expr):
    """A reduction of `body` over `axis`."""

    reducer: Reducer
    body: Expr
    axis: Axis
    drops_nan: bool = False
    """True where a NaN of the body reaches every use by another way, as in softmax."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The body alone."""
        return (self.body,)

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The body's axes but the reduced one."""
        return self.body.axes - {self.axis}


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """What the kernel keeps in a variable of its own while it walks along `varying`."""

    varying: frozenset[Axis]

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The axes along which the variable changes."""
        return self.varying


@dataclass(frozen=True, eq=False)
class OrderStat(Expr):
    """The element of some rank among those of `key` along `axis`, or its place there.

    NaN is the largest. Counted from the smallest up, the first of equals comes first; counted
    from the largest down, the last of them: both count through one sorted row.
    """

    key: Expr
    axis: Axis
    rank: int
    is_largest_first: bool
    is_place: bool

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The key alone."""
        return (self.key,)

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The key's axes but the ranked one."""
        return self.key.axes - {self.axis}


class Scanner(StrEnum):
    """How a scan combines its running value with the next."""

    SUM = "sum"
    PRODUCT = "product"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    LOGSUMEXP = "logsumexp"


@dataclass(frozen=True, eq=False)
class ScanExpr(Expr):
    """The running value of `body` along `axis`, at the place where the body stands."""

    scanner: Scanner
    body: Expr
    axis: Axis
    is_inclusive: bool
    is_reverse: bool

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The body alone."""
        return (self.body,)

    @cached_property
    def axes(self) -> frozenset[Axis]:
        """The body's axes and the scanned one."""
        return self.body.axes | {self.axis}


@dataclass(frozen=True, slots=True)
class Store:
    """One element of an output, at a row-major offset."""

    array: str
    offset: Index
    value: Expr
    stored: Dtype


Key = tuple[object, ...]
Maker = Callable[[int], Expr]


@dataclass
class ExprTable:
    """Makes terms, each of them once."""

    made: dict[Key, Expr] = field(default_factory=dict)
    listed: list[Expr] = field(default_factory=list)

    def literal(self, text: str, dtype: Dtype) -> Expr:
        """Return a number."""
        key: Key = ("literal", text, dtype)
        return self._once(key, lambda n: Literal(dtype, "", n, text))

    def load(self, array: str, offset: Index, stored: Dtype) -> Expr:
        """Return an element of an input, converted to the type that it is computed in."""
        offset = offset.widened()
        key: Key = ("load", array, offset)
        places = self._places(offset)
        dtype, name = computed(stored), f"{array}_value"
        return self._once(key, lambda n: Load(dtype, name, n, array, offset, stored, places))

    def place(self, index: Index) -> Expr:
        """Return an index as a value."""
        index = index.widened()
        places = self._places(index)
        key: Key = ("place", index)
        return self._once(key, lambda n: IndexValue(Dtype.UINT32, "place", n, index, places))

    def _places(self, index: Index) -> tuple[Expr, ...]:
        return tuple(self.listed[n] for n in sorted(index.places))

    def apply(
        self, op: str, dtype: Dtype, name: str, *arguments: Expr, is_fast: bool = False
    ) -> Expr:
        """Return an op over other terms."""
        key: Key = ("apply", op, is_fast, dtype, *(a.number for a in arguments))
        return self._once(key, lambda n: Apply(dtype, name, n, op, arguments, is_fast))

    def choose(self, place: Index, edges: Sequence[int], arms: Sequence[Expr]) -> Expr:
        """Return one of several terms, or the only one that the place's range leaves."""
        low, high = place.bounds
        first = sum(edge <= low for edge in edges)
        last = sum(edge <= high for edge in edges)
        edges, arms = edges[first:last], arms[first : last + 1]
        place = place.widened()
        kept = [0, *(i for i in range(1, len(arms)) if arms[i] is not arms[i - 1])]
        if len(kept) == 1:
            return arms[0]
        ends, left = tuple(edges[i - 1] for i in kept[1:]), tuple(arms[i] for i in kept)
        key: Key = ("choose", place, ends, *(arm.number for arm in left))
        dtype, places = arms[0].dtype, self._places(place)
        return self._once(key, lambda n: Switch(dtype, "element", n, place, ends, left, places))

    def reduced(
        self,
        reducer: Reducer,
        body: Expr,
        axis: Axis,
        *,
        dtype: Dtype,
        name: str,
        drops_nan: bool = False,
    ) -> Expr:
        """Return a reduction of a term over an axis."""
        key: Key = ("reduced", reducer, body.number, axis, drops_nan)
        return self._once(key, lambda n: ReduceExpr(dtype, name, n, reducer, body, axis, drops_nan))

    def ranked(
        self, key: Expr, axis: Axis, rank: int, *, is_largest_first: bool, is_place: bool
    ) -> Expr:
        """Return an element of some rank along an axis, or its place."""
        made: Key = ("ranked", key.number, axis, rank, is_largest_first, is_place)
        dtype, name = (Dtype.UINT32, "place") if is_place else (key.dtype, "element")
        return self._once(
            made, lambda n: OrderStat(dtype, name, n, key, axis, rank, is_largest_first, is_place)
        )

    def scanned(
        self, scanner: Scanner, body: Expr, axis: Axis, *, is_inclusive: bool, is_reverse: bool
    ) -> Expr:
        """Return the running value of a term along an axis."""
        key: Key = ("scanned", scanner, body.number, axis, is_inclusive, is_reverse)
        name = f"running_{scanner}"
        return self._once(
            key,
            lambda n: ScanExpr(body.dtype, name, n, scanner, body, axis, is_inclusive, is_reverse),
        )

    def held(self, name: str, dtype: Dtype, varying: Iterable[Axis]) -> Expr:
        """Return what a variable of the kernel holds; the kernel binds it to its text."""
        axes = frozenset(varying)
        return self._once(("held", name), lambda n: Var(dtype, name, n, axes))

    def _once(self, key: Key, make: Maker) -> Expr:
        if key not in self.made:
            self.made[key] = make(len(self.listed))
            self.listed.append(self.made[key])
        return self.made[key]


def computed(dtype: Dtype) -> Dtype:
    """Return the dtype in which values of `dtype` are computed."""
    return Dtype.FLOAT32 if dtype.is_float else dtype


def walk(roots: Iterable[Expr], known: Container[int] = (), *, arms: bool = True) -> Iterator[Expr]:
    """Yield every term below `roots`, operands first; a term numbered in `known` hides its own.

    Without `arms`, what only a choice's arms need is left out.
    """
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        term, expanded = stack.pop()
        if expanded:
            yield term
        elif term.number not in seen:
            seen.add(term.number)
            stack.append((term, True))
            if term.number not in known:
                below = term.places if isinstance(term, Switch) and not arms else term.operands
                stack.extend((operand, False) for operand in reversed(below))


def always(roots: Iterable[Expr], known: Container[int] = ()) -> Iterator[Expr]:
    """Yield the terms that are computed whatever is chosen: no arm of a choice."""
    return walk(roots, known, arms=False)
