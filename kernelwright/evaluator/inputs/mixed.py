"""One case of every kind of data: each row of each input draws its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import (
    Random,
    Values,
    draw_beside,
    draw_rows,
    shares,
)
from kernelwright.evaluator.inputs.far_rows import move_to_ends
from kernelwright.evaluator.inputs.independence import Rows, rows_of
from kernelwright.evaluator.inputs.meeting import meet
from kernelwright.evaluator.inputs.overflow_room import overflow_room
from kernelwright.evaluator.inputs.structures.real_rows import draw_structured
from kernelwright.evaluator.inputs.value_domain import is_summed
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype

T = TypeVar("T", bound=np.generic)
TAME = (
    *(Distribution.OFFSET, Distribution.SMALL, Distribution.LARGE, Distribution.WIDE),
    *(Distribution.TIED, Distribution.ALTERNATING, Distribution.SPARSE, Distribution.SHIFTED),
    *(Distribution.ONE_HOT, Distribution.SORTED, Distribution.LATTICE, Distribution.STRUCTURED),
)
"""Kinds whose results are ordinary numbers, so that every row of them shows a wrong one."""
EVENTS = (
    *(Distribution.NAN, Distribution.INFINITE, Distribution.MASKED, Distribution.ZERO),
    *(Distribution.SENTINEL, Distribution.DISTANT, Distribution.EXTREME, Distribution.HUGE),
    *(Distribution.DENORMAL, Distribution.CONSTANT, Distribution.BESIDE_NAN),
    Distribution.NEAR_ENDS,
)
"""Kinds that hide a row's other values; each input takes them in rows of its own."""
_FAR = (
    *(Distribution.SENTINEL, Distribution.DISTANT, Distribution.EXTREME, Distribution.HUGE),
    Distribution.NEAR_ENDS,
)
_LARGEST_TERM = {Dtype.FLOAT16: (40000.0, 1024.0)}
"""Beyond which a term is lowered, and to what; elsewhere to 2^50, of which a million squares are
still a float32. Halves as far from zero as masks are stay there."""
_EVENT_SHARE = 3
"""At most one row of so many."""
_LAST_SHARE = 8
"""At most one row of so many is among the last ones in which something happens."""
_LEAST_POISONED = 64
"""Elements of an input that all rows read, of which a few may be special."""
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
_FEW_ROWS = 64
"""So few rows hold each ordinary kind in one of several cases, in rows where nothing happens."""
_MOST_EVENT_ROWS = 4096
"""Of one event: more show nothing new, and hide other rows."""


@dataclass(frozen=True, slots=True)
class Event:
    """What some rows hold: a kind for one input, or all inputs together where `focus` is None."""

    kind: Distribution
    focus: int | None


@dataclass(frozen=True)
class MixedPlan:
    """Which inputs share their rows, and what may happen in them."""

    rows: tuple[Rows | None, ...]
    peers: tuple[int, ...]
    """Inputs of one number of rows, the most of all: row n of each meets row n of the others."""
    events: tuple[Event, ...]

    @property
    def count(self) -> int:
        """Rows of the peers."""
        found = self.rows[self.peers[0]] if self.peers else None
        return found.count if found is not None else 0

    @property
    def at_once(self) -> int:
        """How many events find a row in one case."""
        return min(len(self.events), self.count // 2)

    @property
    def parts(self) -> int:
        """How many cases it takes for every event to find a row."""
        return -(-len(self.events) // self.at_once) if self.at_once else 1

    @property
    def parts_of_all(self) -> int:
        """How many cases it takes for every ordinary kind to find a row, too."""
        return max(self.parts, -(-len(TAME) // _tame_count(self.count))) if self.at_once else 1

    def is_ordinary(self, place: int) -> bool:
        """Say whether rows and single elements of an input are never special here."""
        rows = self.rows[place]
        return rows is None or not (place in self.peers or rows.is_elementwise)

    def events_of(self, part: int) -> tuple[Event, ...]:
        """Return what happens in one of several cases, each event in one of every `parts`."""
        if not self.at_once:
            return ()
        start = part * self.at_once
        turned = [self.events[(start + i) % len(self.events)] for i in range(self.at_once)]
        return tuple(turned)


def plan_of(graph: Graph) -> MixedPlan:
    """Find the rows of a graph's float inputs and list the events that they can show."""
    types = graph.input_types
    rows = tuple(
        rows_of(graph, place) if t.dtype.is_float and t.size else None
        for place, t in enumerate(types)
    )
    counts = [r.count for r in rows if r is not None]
    most = max(counts, default=0)
    peers = tuple(i for i, r in enumerate(rows) if r is not None and r.count == most)
    events = [
        Event(kind, focus)
        for kind in EVENTS
        for focus in peers
        if kind not in _FAR or not _may_overflow(graph, focus)
    ]
    if len(_alike(types, peers)) > 1:
        events.append(Event(Distribution.PAIRED, None))
    if len(peers) > 1:
        events.append(Event(Distribution.ZERO, None))
    return MixedPlan(rows, peers, tuple(events))


def _may_overflow(graph: Graph, place: int) -> bool:
    """Say whether halves far from zero are added up: their products overflow on the way."""
    value = graph.inputs[place]
    return graph.types[value].dtype is Dtype.FLOAT16 and is_summed(graph, value)


def _alike(types: Sequence[TensorType], places: Sequence[int]) -> tuple[int, ...]:
    """Return the places whose type is that of the first."""
    return tuple(i for i in places if types[i] == types[places[0]])


def draw_mixed(graph: Graph, part: int, random: Random) -> dict[int, Values]:
    """Draw every float input of a mixed case, by place."""
    plan, types = plan_of(graph), graph.input_types
    events = plan.events_of(part)
    chosen = _event_rows(plan.count, len(events), random) if events else np.zeros(0, np.intp)
    drawn = {
        place: _tame_rows(rows, types[place], part, chosen, random)
        for place, rows in enumerate(plan.rows)
        if rows is not None
    }
    _place_events(graph, plan, events, chosen, drawn, random)
    made = {place: shaped(plan.rows[place], types[place], drawn[place], random) for place in drawn}
    for place, type_ in enumerate(types):
        is_real = type_.dtype is Dtype.BOOL or type_.dtype.is_integer
        if not is_real and place not in made:
            made[place] = _apart(type_, random)
    for place, rows in enumerate(plan.rows):
        is_read_by_all = rows is not None and place not in plan.peers and rows.is_elementwise
        if is_read_by_all and types[place].size >= _LEAST_POISONED:
            _poison(made[place], random)
    _poison_ends(plan, made)
    return made


def _tame_rows(
    rows: Rows, type_: TensorType, part: int, events: NDArray[np.intp], random: Random
) -> Values:
    """Draw ordinary rows: half of them normal."""
    values = draw_rows(Distribution.NORMAL, rows.count, rows.length, type_.dtype, random)
    order = random.permutation(rows.count)
    kinds: Sequence[Distribution] = [TAME[i] for i in random.permutation(len(TAME))]
    count = _tame_count(rows.count)
    if rows.count <= _FEW_ROWS:
        # Where something happens to a row, its kind would not show.
        order = np.concatenate([np.setdiff1d(order, events), order[np.isin(order, events)]])
        kinds = [TAME[(part * count + i) % len(TAME)] for i in range(len(TAME))]
    _fill(values, kinds, order[:count], type_.dtype, random)
    return values


def _tame_count(count: int) -> int:
    """Return how many rows of so many are of another ordinary kind than the normal one."""
    return -(-count // 2)


def _fill(
    values: Values,
    kinds: Sequence[Distribution],
    places: NDArray[np.intp],
    dtype: Dtype,
    random: Random,
) -> None:
    for kind, part in shares(kinds, places):
        if kind is Distribution.STRUCTURED:
            values[part] = draw_structured(len(part), values.shape[1], random)
        else:
            values[part] = draw_rows(kind, len(part), values.shape[1], dtype, random)


def _place_events(
    graph: Graph,
    plan: MixedPlan,
    events: Sequence[Event],
    chosen: NDArray[np.intp],
    drawn: dict[int, Values],
    random: Random,
) -> None:
    types = graph.input_types
    summed = [place for place in plan.peers if is_summed(graph, graph.inputs[place])]
    for turn, event in enumerate(events):
        places = chosen[turn :: len(events)]
        for place in plan.peers:
            made = draw_rows if event.focus in (place, None) else draw_beside
            length, dtype = drawn[place].shape[1], types[place].dtype
            rows = made(event.kind, len(places), length, dtype, random)
            if event.kind is Distribution.NEAR_ENDS:
                move_to_ends(rows, dtype, overflow_room(graph))
            drawn[place][places] = rows
        if event.kind is Distribution.PAIRED:
            _pair(_alike(types, plan.peers), types, drawn, places)
        for place in summed if event.kind is not Distribution.NEAR_ENDS else ():
            rows = drawn[place][places]
            lower_terms(rows, types[place].dtype)
            drawn[place][places] = rows


def lower_terms(values: Values, dtype: Dtype) -> None:
    """Lower what is so far from zero that sums of a row would overflow in some order only."""
    beyond, largest = _LARGEST_TERM.get(dtype, (2.0**50, 2.0**50))
    is_beyond = np.isfinite(values) & (np.abs(values) > beyond)
    np.copyto(values, np.copysign(np.float32(largest), values), where=is_beyond)


def _event_rows(count: int, events: int, random: Random) -> NDArray[np.intp]:
    """Draw in which of `count` rows the events happen, each event in one of every `events`.

    The last row is among them, for the first event, and so are others next to it: what is left of
    a tile has code of its own, which often lacks a guard. Rows between them stay ordinary.
    """
    wanted = max(min(count // _EVENT_SHARE, _MOST_EVENT_ROWS * events), events)
    last = count - 1 - 2 * np.arange(min(events, max(count // _LAST_SHARE, 1)))
    before = random.permutation(last[-1])
    return np.concatenate([last[:1], random.permutation(last[1:]), before])[:wanted]


def _pair(
    alike: Sequence[int],
    types: Sequence[TensorType],
    drawn: dict[int, Values],
    places: NDArray[np.intp],
) -> None:
    """Make rows of one input equal, opposite or close to those of the next of its type."""
    pairs = [(alike[i], alike[(i + 1) % len(alike)]) for i in range(len(alike))]
    pairs = pairs[:1] if len(alike) == 2 else pairs
    for pair, part in zip(pairs, np.array_split(places, len(pairs)), strict=True):
        one, other = (drawn[place][part] for place in pair)
        meet(one, other, types[pair[0]].dtype)
        drawn[pair[0]][part], drawn[pair[1]][part] = one, other


def _apart(type_: TensorType, random: Random) -> Values:
    """Draw an input whose every part meets every other: rows of ordinary kinds."""
    length = type_.shape[-1] if type_.shape else 1
    count = type_.size // length if length else 0
    if not count:
        return np.zeros(type_.shape, np.float32)
    if count < 2:
        values = draw_rows(Distribution.WIDE, count, length, type_.dtype, random)
        return values.reshape(type_.shape)
    values = draw_rows(Distribution.NORMAL, count, length, type_.dtype, random)
    kinds = random.permutation(np.array([Distribution.NORMAL, *TAME], object)).tolist()
    _fill(values, kinds, random.permutation(count), type_.dtype, random)
    return values.reshape(type_.shape)


def _poison(values: Values, random: Random) -> None:
    """Make a few elements of an input special that all rows read, each in a column of its own."""
    flat = values.reshape(-1)
    places = 1 + random.choice(flat.size - 2, len(_SPECIAL), replace=False)
    flat[places] = _SPECIAL


def _poison_ends(plan: MixedPlan, made: dict[int, Values]) -> None:
    """Make the last elements of inputs special that are read one by one, each input's in turn.

    What vectors leave over is computed apart, and has no other element to hide.
    """
    alone = [p for p in plan.peers if (rows := plan.rows[p]) is not None and rows.is_elementwise]
    for turn, place in enumerate(alone):
        flat = made[place].reshape(-1)
        if flat.size >= _LEAST_POISONED * len(alone):
            ends = flat[-1 - turn :: -len(alone)][: len(_SPECIAL)]
            ends[...] = _SPECIAL


def shaped(rows: Rows | None, type_: TensorType, values: NDArray[T], random: Random) -> NDArray[T]:
    """Put rows where they belong in an input's shape."""
    assert rows is not None
    if not rows.axes:
        made = np.empty(type_.size, values.dtype)
        made[: values.size] = values.reshape(-1)
        made[values.size :] = random.standard_normal(type_.size - values.size, np.float32)
        return made.reshape(type_.shape)
    others = tuple(a for a in range(len(type_.shape)) if a not in rows.axes)
    order = (*rows.axes, *others)
    if order == tuple(range(len(order))):
        return values.reshape(type_.shape)
    turned = values.reshape(tuple(type_.shape[a] for a in order))
    return np.ascontiguousarray(turned.transpose(np.argsort(order)))
