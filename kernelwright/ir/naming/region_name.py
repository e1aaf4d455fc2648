"""Names for regions that their user understands: by variable, by call or module, or by line."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.graph.sighting import SEPARATOR, Sighting
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.naming.role import names_of
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region

_MOST_OUTPUTS = 2
_MOST_WORDS = 2
_LONGEST = 60
_NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_PLUMBING = frozenset({"cast", "arange"})


def region_names(graph: Graph, regions: Sequence[Region]) -> tuple[str, ...]:
    """Name the regions of a labelled graph, each name once.

    A region goes by its result: the call that returned it, such as `rope(q)` or
    `layer 3 · mlp`, or the variable that it was assigned to. A result inside an expression goes by
    what it is and its line, `softmax line 12`. Without labels a region goes by what it computes.
    """
    source = _Source(graph)
    found = [source.name(region) for region in regions]
    return _distinct(_without_common_path(found))


def shared_name(names: Sequence[str]) -> str:
    """Return one name for regions that are alike: `layer 0–3 · mlp` where only a number differs."""
    parts = [_NUMBER.split(name) for name in names]
    if len({tuple(p[::2]) for p in parts}) == 1:
        differing = [i for i in range(1, len(parts[0]), 2) if len({p[i] for p in parts}) > 1]
        if len(differing) == 1:
            (place,) = differing
            numbers = sorted({int(p[place]) for p in parts})
            is_run = numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2
            listed = f"{numbers[0]}–{numbers[-1]}" if is_run else _listed(numbers)
            return "".join([*parts[0][:place], listed, *parts[0][place + 1 :]])
    return names[0]


def _listed(numbers: Sequence[int]) -> str:
    shown = [*map(str, numbers[:3]), *(["…"] if len(numbers) > 3 else [])]
    return ", ".join(shown)


@dataclass(frozen=True)
class _Name:
    """A name in parts, with the line that tells it from its equals."""

    path: tuple[str, ...]
    words: str
    line: str = ""
    is_repeated: bool = False
    """Whether the user has given this name to other values on other lines."""

    @property
    def short(self) -> str:
        found = SEPARATOR.join((*self.path, self.words))
        return found if len(found) <= _LONGEST else SEPARATOR.join((*self.path[-1:], self.words))

    @property
    def placed(self) -> str:
        return f"{self.short} {self.line}".rstrip()


@dataclass(frozen=True)
class _Source:
    """What the user's source calls the values of a graph."""

    graph: Graph

    @cached_property
    def seen(self) -> Mapping[ValueId, tuple[Sighting, ...]]:
        return dict(self.graph.labels)

    @cached_property
    def places(self) -> Mapping[str, set[str]]:
        """Return the lines on which each name was given to a value."""
        found: dict[str, set[str]] = {}
        for sightings in self.seen.values():
            for sighting in (s for s in sightings if s.name):
                found.setdefault(sighting.words, set()).add(sighting.place)
        return found

    def name(self, region: Region) -> _Name:
        named = [self._outermost(value) for value in region.outputs]
        own = list({s.words: s for s in named if s is not None}.values())
        if not own:
            return self._by_line(region)
        first = own[0]
        words = [first.name, *(s.name for s in own[1:] if s.path == first.path)]
        shown = ", ".join(words[:_MOST_OUTPUTS]) + (", …" if len(words) > _MOST_OUTPUTS else "")
        is_repeated = len(self.places[first.words]) > 1
        return _Name(first.path, shown, first.place, is_repeated)

    def _outermost(self, value: ValueId) -> Sighting | None:
        """Return the name of a value, or of a view of it, that is nearest to the function."""
        found = [s for alias in self._aliases(value) for s in self.seen.get(alias, ())]
        found = [s for s in found if s.name]
        return min(found, key=lambda s: (len(s.path), not s.is_call, s.order), default=None)

    def _aliases(self, value: ValueId) -> Iterator[ValueId]:
        """Yield a value, what views and casts make of it, and what it is itself a view of."""
        frontier = [value]
        while frontier:
            alias = frontier.pop()
            yield alias
            for index in self.graph.consumers_of[alias]:
                if self._is_view(index) and self.graph.nodes[index].inputs[0] == alias:
                    frontier += self.graph.nodes[index].outputs
        maker = self.graph.producer_of.get(value)
        while maker is not None and self._is_view(maker):
            value = self.graph.nodes[maker].inputs[0]
            yield value
            maker = self.graph.producer_of.get(value)

    def _is_view(self, index: int) -> bool:
        op = self.graph.nodes[index].op
        return op_named(op).kind is Kind.VIEW or op == "cast"

    def _by_line(self, region: Region) -> _Name:
        """Name a region by what it computes, and by the line that first makes use of it."""
        user = min(self._users(region.outputs), key=lambda s: s.order, default=None)
        is_result = any(v in self.graph.outputs for o in region.outputs for v in self._aliases(o))
        what = _idiom(region) or ("result" if is_result else "")
        if user is None:
            return _Name((), _computed(region))
        return _Name(user.path, what or self._purpose(region), user.place, is_repeated=True)

    def _users(self, values: Sequence[ValueId]) -> Iterator[Sighting]:
        """Yield the first names of what is computed from some values, the nearest of each way."""
        frontier, met = list(values), set(values)
        while frontier:
            value = frontier.pop()
            if sightings := self.seen.get(value):
                yield min(sightings, key=lambda s: s.order)
                continue
            for index in self.graph.consumers_of[value]:
                below = [v for v in self.graph.nodes[index].outputs if v not in met]
                met.update(below)
                frontier += below

    def _purpose(self, region: Region) -> str:
        """Say which op a nameless result is for."""
        for value in region.outputs:
            for alias in self._aliases(value):
                for index in self.graph.consumers_of[alias]:
                    if index not in region.indices and not self._is_view(index):
                        return f"input of {self.graph.nodes[index].op}"
        return _computed(region)


def _idiom(region: Region) -> str:
    """Return the word that people have for what a region ends with, if they have one."""
    found = [idiom.name for idiom in idioms(region.bare())]
    ops = [node.op for node in region.nodes]
    whole = [op for op in ops if op_named(op).kind not in (Kind.ELEMENTWISE, Kind.VIEW)]
    named = found or [op for op in whole if op not in _PLUMBING]
    return named[-1].replace("_", " ") if named else ""


def _computed(region: Region) -> str:
    """Say what a region computes: by one word or two, and by what it reads."""
    nodes = region.nodes
    plain = [n.op for n in nodes if op_named(n.op).kind is not Kind.VIEW and n.op not in _PLUMBING]
    ops = list(dict.fromkeys(plain))
    what = _idiom(region) or (" and ".join(ops) if 0 < len(ops) <= _MOST_WORDS else "elementwise")
    names = names_of(region.graph, region.inputs, nodes)
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{what}({shown})"


def _without_common_path(names: Sequence[_Name]) -> list[_Name]:
    """Drop the calls that all regions are within: they tell nothing apart."""
    found = list(names)
    while len(inner := [n for n in found if n.path]) > 1:
        (outermost, *others) = {n.path[0] for n in inner}
        bare = [n.words.partition("(")[0] for n in found if not n.path]
        if others or any(words != outermost for words in bare):
            break
        found = [replace(n, path=n.path[1:]) for n in found]
    return found


def _distinct(names: Sequence[_Name]) -> tuple[str, ...]:
    """Return the names, with lines where they repeat, with numbers where lines do too."""
    short = Counter(name.short for name in names)
    chosen = [n.placed if n.is_repeated or short[n.short] > 1 else n.short for n in names]
    counts, met = Counter(chosen), Counter[str]()
    found: list[str] = []
    for name in chosen:
        met[name] += 1
        found.append(f"{name} #{met[name]}" if counts[name] > 1 else name)
    return tuple(name.replace("/", "|") for name in found)
