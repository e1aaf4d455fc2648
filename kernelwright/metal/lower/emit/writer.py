"""Expressions to lines of MSL: what gets a name, where it stands, and what is written inline."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import (
    Apply,
    Expr,
    IndexValue,
    Literal,
    Load,
    OrderStat,
    ReduceExpr,
    ScanExpr,
    Store,
    Switch,
    always,
    walk,
)
from kernelwright.metal.kernel_ir.index import Axis, Index, Names
from kernelwright.metal.lower.emit.neighbour import neighbours, packed
from kernelwright.metal.target.msl.precedence import Binding, Expression, fill
from kernelwright.metal.target.msl.spelling import MSL_TYPE, template

LONGEST_INLINE = 60
"""Characters of an expression beyond which its parts get names."""
LONGEST_STATEMENT = 72
"""The same for an expression that is all that a statement computes."""
INDENT = "  "
_KINDS: dict[type[Expr], str] = {ReduceExpr: "reduction", ScanExpr: "scan", OrderStat: "ranking"}
"""What a refusal calls the terms that loops compute."""


@dataclass
class Writer:
    """A kernel's body as it grows.

    `scalars` are inputs without dimensions, which MLX passes by reference; `factors` are sizes
    that have a name in the kernel.
    """

    scalars: frozenset[str] = frozenset()
    factors: Mapping[int, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    taken: frozenset[str] = frozenset()
    bound: dict[int, str] = field(default_factory=dict)
    """Names of the terms that have a variable here, by number."""
    pointers: dict[tuple[str, Index], str] = field(default_factory=dict)
    """Names of pointers to an array plus an offset."""
    offsets: dict[Index, str] = field(default_factory=dict)
    """Names of offsets that several accesses share, or differ from by a number."""
    runs: dict[tuple[str, Index], str] = field(default_factory=dict)
    """Elements of what was read or will be written as a whole, by array and offset."""
    slots: dict[int, str] = field(default_factory=dict)
    """Places in register arrays, by the number of the term that is kept there."""
    wanted: frozenset[int] = frozenset()
    """Numbers of the terms that get a variable in any case."""
    shared: frozenset[str] = frozenset()
    """Arrays that stand in threadgroup memory."""

    def line(self, text: str) -> None:
        """Write one line at the current depth."""
        self.lines.append(f"{INDENT * self.depth}{text}" if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block; the names made inside are free again after it."""
        self.line(f"{head} {{".lstrip())
        kept = (self.taken, dict(self.bound), dict(self.pointers), dict(self.offsets))
        self.depth += 1
        yield
        self.depth -= 1
        self.taken, self.bound, self.pointers, self.offsets = kept
        self.line("}")

    def fresh(self, name: str, companion: Callable[[str], str] = lambda chosen: chosen) -> str:
        """Return `name`, or `name_2`, `name_3` …, whichever is free, and take it.

        The name that `companion` makes of it is free and taken, too.
        """
        chosen, number = name, 1
        while not self.taken.isdisjoint((chosen, companion(chosen))):
            number += 1
            chosen = f"{name}_{number}"
        self.taken = self.taken | {chosen, companion(chosen)}
        return chosen

    def bind(self, term: Expr, name: str) -> None:
        """Say that a variable holds a term."""
        self.bound[term.number] = name

    def define(self, term: Expr) -> str:
        """Give a term a variable and return its name."""
        if isinstance(term, Switch) and self._must_branch(term):
            return self._branch(term)
        # Initialising a float from a half converts it without saying so.
        text = (
            self.access(term.array, term.offset)
            if isinstance(term, Load)
            else self._compose(term).text
        )
        if term.number in self.slots:
            name = self.slots[term.number]
            self.line(f"{name} = {text};")
        else:
            name = self.fresh(term.name)
            self.line(f"{MSL_TYPE[term.dtype]} {name} = {text};")
        self.bind(term, name)
        return name

    def _must_branch(self, term: Switch) -> bool:
        """Say whether an arm is more than a number or an element that was read already."""
        is_read = (
            isinstance(arm, Literal)
            or (isinstance(arm, Load) and (arm.array, arm.offset) in self.runs)
            for arm in term.arms
        )
        return bool(term.places) or len(term.arms) != 2 or not all(is_read)

    def _branch(self, term: Switch) -> str:
        """Write a choice as branches, each computing its own arm only."""
        name = self.slots.get(term.number)
        if name is None:
            name = self.fresh(term.name)
            self.line(f"{MSL_TYPE[term.dtype]} {name};")
        self._assign(name, term)
        self.join_branches()
        self.bind(term, name)
        return name

    def define_places(self, terms: Iterable[Expr]) -> None:
        """Give every computed place at which the terms read a variable, before any loop."""
        for term in walk(terms):
            for place in term.places if isinstance(term, Load) else ():
                if place.number not in self.bound:
                    self.prepare([place])
                    self.define(place)

    def _assign(self, name: str, term: Expr) -> None:
        """Write what gives a variable the value of a term, branches where it is a choice."""
        if not isinstance(term, Switch) or term.number in self.bound:
            self.prepare([term])
            self.line(f"{name} = {self.expression(term).text};")
            return
        self.prepare(term.places)
        for computed in term.places:
            self.named(computed)
        heads = [f"if ({self.question(term.place, edge)})" for edge in term.edges]
        for number, arm in enumerate(term.arms):
            head = "else" if number == len(heads) else heads[number]
            with self.block(head if number in (0, len(heads)) else f"else {head}"):
                self._assign(name, arm)

    def question(self, place: Index, edge: int) -> str:
        """Return the text that asks whether a place lies before an edge."""
        # The first of a pair is even.
        return f"{self.index(place)} {'== 0' if edge == 1 else f'< {edge}'}"

    def join_branches(self) -> None:
        """Write `} else {` in one line, as people do."""
        joined: list[str] = []
        for line in self.lines:
            if joined and line.lstrip().startswith("else") and joined[-1].strip() == "}":
                joined[-1] = f"{joined[-1]} {line.lstrip()}"
            else:
                joined.append(line)
        self.lines = joined

    def prepare(self, roots: Sequence[Expr], axes: Iterable[Axis] = ()) -> None:
        """Name what `roots` need more than once, or what would make a line too long.

        ExprTable that vary along one of `axes` are left for a loop over it; what such a term needs
        from outside the loop is named here, so that it is computed once.
        """
        inner = frozenset(axes)
        self._read_neighbours(
            [t for t in self._pending(roots) if isinstance(t, Load) and not t.axes & inner]
        )
        uses = self._uses(roots, inner)
        for term in self._pending(roots):
            if term.axes & inner or isinstance(term, Literal):
                continue
            limit = LONGEST_STATEMENT if term in roots else LONGEST_INLINE
            if self._deserves_name(term, uses, limit):
                self.define(term)
        for term in self._still_in_arms(roots, inner):
            if term.number not in self.bound:
                self.prepare([term])
                self.define(term)

    def _read_neighbours(self, loads: Iterable[Load]) -> None:
        """Read elements that stand side by side in one access, and name each."""
        apart = [t for t in loads if t.array not in self.scalars]
        for group in neighbours([t for t in apart if (t.array, t.offset) not in self.runs]):
            first = group[0]
            name = self.fresh(f"{first.array}_run")
            address = self.address(first.array, first.offset)
            kind = packed(first.stored, len(group))
            self.line(f"auto {name} = {self.run_at(kind, first.array, address)};")
            for place, load in enumerate(group):
                self.runs[load.array, load.offset] = f"{name}[{place}]"
                self.define(load)
                # Outside this block the run has no name.
                del self.runs[load.array, load.offset]

    def _still_in_arms(self, roots: Sequence[Expr], inner: frozenset[Axis]) -> list[Expr]:
        """Return arithmetic of choices' arms that stays the same along a loop over `inner`.

        It is computed before the loop, whichever arm is taken in it; what reads memory is not,
        for an arm that is not taken may point outside its array.
        """
        certain = {term.number for term in self._pending(roots)}
        found: dict[int, Expr] = {}
        for term in walk(roots, self.bound) if inner else ():
            for operand in term.operands if term.axes & inner else ():
                is_new = operand.number not in certain and operand.number not in self.bound
                is_still = isinstance(operand, Apply) and not operand.axes & inner
                if is_new and is_still and operand.dtype.is_float and self._reads_nothing(operand):
                    found[operand.number] = operand
        return list(found.values())

    def _reads_nothing(self, term: Expr) -> bool:
        below = walk([term], self.bound)
        return not any(isinstance(t, Load | Switch) and t.number not in self.bound for t in below)

    def _uses(self, roots: Sequence[Expr], inner: frozenset[Axis]) -> Counter[int]:
        uses = Counter(root.number for root in roots)
        hoisted = bool(inner)
        if hoisted:
            uses.update(root.number for root in roots if not root.axes & inner)
        for term in self._pending(roots):
            if isinstance(term, Load | IndexValue | Switch):
                uses.update({place.number: 2 for place in term.places})
            if isinstance(term, Switch):
                continue
            for operand, times in _occurrences(term):
                uses[operand.number] += times
                if hoisted and term.axes & inner and not operand.axes & inner:
                    # Used in a loop and computed outside it: once is already many.
                    uses[operand.number] += 1
        return uses

    def _pending(self, roots: Sequence[Expr]) -> list[Expr]:
        """Return the terms below `roots` that no variable holds yet, operands first."""
        return [t for t in always(roots, self.bound) if t.number not in self.bound]

    def _deserves_name(self, term: Expr, uses: Counter[int], limit: int) -> bool:
        if isinstance(term, Load) and term.array in self.scalars:
            return term.stored is not Dtype.FLOAT32 and uses[term.number] > 1
        if isinstance(term, IndexValue) and self.index(term.index).isidentifier():
            return False
        if isinstance(term, Switch) or uses[term.number] > 1:
            return True
        if term.number in self.slots or term.number in self.wanted:
            return True
        return len(self._compose(term).text) > limit

    def named(self, term: Expr) -> str:
        """Return the term's variable, giving it one first where it is more than a name."""
        text = self.expression(term).text
        return text if term.number in self.bound or text.isidentifier() else self.define(term)

    def expression(self, term: Expr) -> Expression:
        """Return the term's variable, or the term written out."""
        if term.number in self.bound:
            return Expression(self.bound[term.number])
        return self._compose(term)

    def _compose(self, term: Expr) -> Expression:
        match term:
            case Literal():
                return Expression(term.text, Binding.UNARY if term.text[0] == "-" else Binding.ATOM)
            case Load():
                return self._load(term)
            case IndexValue():
                text = self.index(term.index)
                return Expression(text, Binding.ADD if " " in text else Binding.ATOM)
            case Switch() if not self._must_branch(term):
                first, second = (self.expression(arm).text for arm in term.arms)
                question = self.question(term.place, term.edges[0])
                return Expression(f"{question} ? {first} : {second}", Binding.TERNARY)
            case Apply():
                return fill(template(term), [self.expression(a) for a in term.arguments])
        # A loop of the kernel computes it, and this kernel has none that comes before its use.
        kind = _KINDS.get(type(term), "value")
        raise UnsupportedError(
            f"a {kind} ({term.name}) is needed before this kernel has computed it; split the "
            "region there, or take another schedule."
        )

    def _load(self, term: Load) -> Expression:
        text = self.access(term.array, term.offset)
        if term.stored is term.dtype:
            return Expression(text)
        return Expression(f"{MSL_TYPE[term.dtype]}({text})")

    def access(self, array: str, offset: Index) -> str:
        """Return the text of one element of an array."""
        if array in self.scalars:
            return array
        if (array, offset) in self.runs:
            return self.runs[array, offset]
        for (name, base), pointer in self.pointers.items():
            if name == array and (rest := _after(offset, base)) is not None:
                return f"{pointer}[{self.index(rest)}]"
        return f"{array}[{self.index(offset)}]"

    def address(self, array: str, offset: Index) -> str:
        """Return the text of a pointer to one element of an array.

        It adds one sum: a compiler that asks how an address is aligned looks only so deep.
        """
        for (name, base), pointer in self.pointers.items():
            if name == array and (rest := _after(offset, base)) is not None:
                return self._sum(pointer, rest)
        return self._sum(array, offset)

    def run_at(self, kind: str, array: str, address: str) -> str:
        """Return the text of a whole run of an array, read in one access."""
        return f"load_{'shared' if array in self.shared else 'run'}<{kind}>({address})"

    def _sum(self, pointer: str, offset: Index) -> str:
        text = self.index(offset)
        if text == "0":
            return pointer
        return f"{pointer} + ({text})" if " + " in text else f"{pointer} + {text}"

    def index(self, index: Index) -> str:
        """Return the text of an index."""
        for shared, name in self.offsets.items():
            if shared.terms == index.terms:
                apart = index.offset - shared.offset
                return name if not apart else f"{name} {'+' if apart > 0 else '-'} {abs(apart)}"
        return index.render(Names(self.factors, self.bound))

    def share_offsets(self, indices: Iterable[Index], name: str) -> None:
        """Give a variable to every offset that is more than a name and stands twice.

        Offsets that differ by a number count as one.
        """
        known = [index for index in indices if index.places <= self.bound.keys()]
        counted = Counter(index.terms for index in known)
        for terms, times in counted.items():
            index = next(i for i in known if i.terms == terms)
            text = self.index(index)
            if times > 1 and " " in text:
                shared = self.fresh(name)
                is_wide = any(i.is_wide for i in known if i.terms == terms)
                self.line(f"{'ulong' if is_wide else 'uint'} {shared} = {text};")
                self.offsets[index] = shared

    def store(self, store: Store) -> None:
        """Write one element of an output, with the only rounding."""
        value = self.expression(store.value)
        text = value.text
        if store.stored is not store.value.dtype:
            text = f"{MSL_TYPE[store.stored]}({text})"
        self.line(f"{self.access(store.array, store.offset)} = {text};")

    def branch(self) -> "Writer":
        """Return a writer with the same names and no lines, to see what a block would hold."""
        return replace(
            self,
            lines=[],
            bound=dict(self.bound),
            pointers=dict(self.pointers),
            offsets=dict(self.offsets),
            runs=dict(self.runs),
        )

    def adopt(self, other: "Writer") -> None:
        """Take over the names of a writer whose lines now stand in this one's scope."""
        self.taken, self.bound = other.taken, other.bound
        self.pointers, self.offsets = other.pointers, other.offsets

    def mentions(self, word: str) -> bool:
        """Say whether a name stands anywhere in the lines."""
        return any(re.search(rf"\b{word}\b", line) for line in self.lines)


def _after(offset: Index, base: Index) -> Index | None:
    """Return what remains of `offset` behind a pointer to `base`, or None where it is another."""
    rest = offset.minus(base)
    is_part = len(rest.terms) == len(offset.terms) - len(base.terms)
    # Below zero it would wrap: a pointer is 64 bits wide, an index 32.
    return rest if is_part and rest.bounds[0] >= 0 else None


def _occurrences(term: Expr) -> Iterator[tuple[Expr, int]]:
    if isinstance(term, Apply):
        text = template(term)
        for number, argument in enumerate(term.arguments):
            yield argument, text.count(f"{{{number}}}")
    else:
        for operand in term.operands:
            yield operand, 1
