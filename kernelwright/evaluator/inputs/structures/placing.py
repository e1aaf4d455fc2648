"""Which structure each input of a structured case has, and what its inputs have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

import numpy as np

from kernelwright.evaluator.inputs.draw import Random, as_shares
from kernelwright.evaluator.inputs.independence import Rows, rows_of
from kernelwright.evaluator.inputs.mixed import shaped
from kernelwright.evaluator.inputs.structures.flag_rows import flag_rows
from kernelwright.evaluator.inputs.structures.integer_rows import INTEGER_ROWS, patterns
from kernelwright.evaluator.inputs.structures.matrices import MATRICES
from kernelwright.evaluator.inputs.structures.real_rows import (
    NEAR_ROWS,
    REAL_ROWS,
    SPECIAL_ROWS,
    RowDraw,
    filters,
    mixed_rows,
    padded,
    padded_batch,
)
from kernelwright.evaluator.inputs.structures.relations import RELATIONS, relate
from kernelwright.evaluator.inputs.value_domain import Domain
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

_MOST_PARTS, _MOST_ELEMENTS = 32, 1 << 20
"""Cases of a small shape, and elements of all of them together."""
_FEWEST_PARTS = 2
_LONGEST_FILTER = 16
_LEAST_SHARE = 2
"""A parameter has at most one element for so many of the largest input."""
_DEFAULTS: tuple[tuple[float | None, float | None], ...] = (
    *((1.0, 0.0), (1.0, None), (None, 0.0), (0.5, None), (0.0, 1.0), (None, 0.5), (1.0, 1.0)),
    (None, 1.0),
)
"""What the parameters hold by turns, in pairs: of a fresh model, a layer that is switched off."""
_LARGEST = 300
_PIECES = 32
_OPERAND_STEP = 7
"""How many structures on the next operand is."""


class Mode(IntEnum):
    """What the inputs of a structured case have in common."""

    ROWS = 0
    """Each row another structure, and each operand another one."""
    RELATED = 1
    """Rows of one input are made of those of another."""
    WHOLE = 2
    """Each input has one structure as a whole."""
    COUNTED = 3
    """Rows are padded, each with another number of zeros, or as a batch, or nearly are what rows
    of a structure are; operands are alike."""


@dataclass(frozen=True)
class Plan:
    """What a graph's structured cases hold."""

    graph: Graph
    parameters: tuple[int, ...]
    """Float inputs that are small beside the largest, the weights first."""

    @property
    def defaults(self) -> int:
        """In how many cases parameters have a value of a fresh model."""
        if not self.parameters:
            return 0
        most = len(_DEFAULTS) if len(self.parameters) > 1 else 4
        return max(min(most, self._affordable), 1)

    @property
    def parts(self) -> int:
        """How many cases there are."""
        return self.defaults + max(min(_MOST_PARTS, self._affordable), _FEWEST_PARTS)

    @property
    def _affordable(self) -> int:
        return _MOST_ELEMENTS // max(self.graph.element_count, 1)


def structure_plan(graph: Graph) -> Plan:
    """Find which inputs of a graph are parameters."""
    types = graph.input_types
    largest = max((t.size for t in types if t.dtype.is_float), default=0)
    found = tuple(
        place
        for place, t in enumerate(types)
        if t.dtype.is_float and 0 < t.size * _LEAST_SHARE <= largest
    )
    return Plan(graph, found)


def structure(
    graph: Graph,
    arrays: Sequence[Array],
    domains: Sequence[Domain],
    part: int,
    order: Random,
    random: Random,
) -> tuple[Array, ...]:
    """Return inputs with the structures of one part, within what the task may be given.

    `order` is the same for all parts, so that together they hold every structure.
    """
    plan = structure_plan(graph)
    mode = Mode((part - plan.defaults) % len(Mode)) if part >= plan.defaults else Mode.ROWS
    turn = max(part - plan.defaults, 0)
    made = list(arrays)
    if not made:
        return ()
    offsets = order.integers(0, 1 << 16, len(made))
    for place, type_ in enumerate(graph.input_types):
        if type_.size < 2:
            continue
        offset = int(offsets[place if mode is not Mode.COUNTED else 0])
        one = _Structured(graph, place, mode, turn + offset, random)
        made[place] = one.made(made[place], domains[place])
    if mode in (Mode.RELATED, Mode.WHOLE):
        _relate(graph, made, domains, mode, turn // len(Mode) + int(offsets[0]), random)
    if part < plan.defaults:
        _leave_out(plan, made, random)
        _set_defaults(plan, made, domains, part)
    return tuple(made)


def _leave_out(plan: Plan, made: list[Array], random: Random) -> None:
    """Let the other operands be zero where the first is ordinary: a branch that adds nothing."""
    types = plan.graph.input_types
    alike = [p for p, t in enumerate(types) if t.dtype.is_float and p not in plan.parameters]
    alike = [p for p in alike if types[p] == types[alike[0]] and len(types[p].shape) > 1]
    if len(alike) > 1:
        first = made[alike[0]].reshape(-1, types[alike[0]].shape[-1])[::4]
        first[...] = np.abs(random.standard_normal(first.shape, np.float32)) + np.float32(0.125)
        for place in alike[1:]:
            made[place].reshape(-1, types[place].shape[-1])[::4] = 0


def _set_defaults(plan: Plan, made: list[Array], domains: Sequence[Domain], part: int) -> None:
    pair = _DEFAULTS[part % len(_DEFAULTS)]
    if len(plan.parameters) == 1:
        pair = ((1.0, None), (0.0, None), (0.5, None), (2.0, None))[part % 4]
    for number, place in enumerate(plan.parameters):
        value = pair[number % 2]
        if value is not None and (value or not domains[place].is_positive):
            made[place] = np.full_like(made[place], value)


@dataclass(frozen=True)
class _Structured:
    """How one input of one part is made."""

    graph: Graph
    place: int
    mode: Mode
    turn: int
    random: Random

    @property
    def type_(self) -> TensorType:
        """The input's type."""
        return self.graph.input_types[self.place]

    def made(self, array: Array, domain: Domain) -> Array:
        """Return the input, or what it was where no structure fits its domain."""
        dtype = self.type_.dtype
        if dtype is Dtype.BOOL:
            only = self.turn if self.mode in (Mode.WHOLE, Mode.COUNTED) else None
            return flag_rows(self.type_.shape, self.random, only, self.turn)
        if dtype.is_integer:
            return self._integers(array, domain)
        if not dtype.is_float:
            return array
        return self._reals(domain)

    def _reals(self, domain: Domain) -> Array:
        values = self._float_rows(domain)
        if domain.is_positive:
            values = np.abs(values) + np.float32(1e-3)
        if domain.is_share:
            values = as_shares(values.astype(np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values.astype(self.type_.dtype.numpy))

    def _float_rows(self, domain: Domain) -> Array:
        shape, random = self.type_.shape, self.random
        is_square = len(shape) > 1 and shape[-1] == shape[-2] > 1
        rows = rows_of(self.graph, self.place)
        if is_square and self.mode is not Mode.COUNTED:
            draw = MATRICES[self.turn % len(MATRICES)]
            count = self.type_.size // shape[-1] ** 2
            return np.array([draw(shape[-1], random) for _ in range(count)]).reshape(shape)
        stands_apart = rows is not None and rows.count > 1
        if rows is None or not stands_apart:
            rows = Rows(
                tuple(range(len(shape) - 1)), self.type_.size // shape[-1], shape[-1], False
            )
        if rows.length <= _LONGEST_FILTER and rows.count == 1:
            found = filters(rows.length, random)
            return found[self.turn % len(found)].reshape(shape)
        # Powers of two over all of a format overflow where their squares are added up.
        specials = SPECIAL_ROWS[: len(SPECIAL_ROWS) - domain.is_summed] if stands_apart else ()
        return shaped(rows, self.type_, self._drawn(rows, specials), random)

    def _drawn(self, rows: Rows, specials: tuple[RowDraw, ...]) -> Array:
        count, length, random = rows.count, rows.length, self.random
        if self.mode is Mode.COUNTED and count > 1:
            turn = self.turn // len(Mode) % 4
            if turn == 3:
                return mixed_rows(NEAR_ROWS, count, length, random)
            return (padded_batch if turn == 1 else padded)(count, length, random)
        if self.mode is Mode.RELATED and count > 1:
            # Half of them ordinary: few relations show in rows that are their own mirror.
            values = random.standard_normal((count, length), np.float32)
            values[1::2] = mixed_rows(REAL_ROWS, len(values[1::2]), length, random)
            return values
        if self.mode is Mode.WHOLE or count == 1:
            return REAL_ROWS[self.turn % len(REAL_ROWS)](count, length, random)
        return mixed_rows((*REAL_ROWS, *specials), count, length, random, self.turn * _OPERAND_STEP)

    def _integers(self, array: Array, domain: Domain) -> Array:
        if domain.levels is not None or domain.unset:
            return array
        length = self.type_.shape[-1] if self.type_.shape else 1
        count = self.type_.size // length
        if (domain.is_packed or domain.is_whole_range) and self.mode is Mode.ROWS:
            # A long vector is read word by word, in pieces that may differ.
            pieces = _PIECES if count == 1 and length >= _PIECES**2 else 1
            shape = (count * pieces, -(-length // pieces))
            drawn = patterns(*shape, array.dtype, self.random).astype(array.dtype)
            return _defined(drawn.reshape(-1)[: array.size].reshape(array.shape), domain)
        low, high = _range(array, domain)
        size, whole = high - low + 1, self.mode in (Mode.WHOLE, Mode.COUNTED)
        rows = [
            low
            + INTEGER_ROWS[(self.turn + (0 if whole else number)) % len(INTEGER_ROWS)](
                length, size, self.random
            )
            % size
            for number in range(count)
        ]
        return _defined(np.array(rows).astype(array.dtype).reshape(array.shape), domain)


def _range(array: Array, domain: Domain) -> tuple[int, int]:
    limits = np.iinfo(str(array.dtype))
    if domain.index_limit is not None:
        return 0, max(domain.index_limit, 1) - 1
    low, high = max(int(limits.min), -_LARGEST), min(int(limits.max), _LARGEST)
    return domain.span or (low, high)


def _defined(array: Array, domain: Domain) -> Array:
    if domain.is_divisor:
        array[array == 0] = 1
    if domain.avoids_least:
        array[array == np.iinfo(str(array.dtype)).min] += 1
    return array


def _relate(
    graph: Graph,
    made: list[Array],
    domains: Sequence[Domain],
    mode: Mode,
    turn: int,
    random: Random,
) -> None:
    """Let rows of inputs of one type be made of each other's, and some rows be a parameter's."""
    only = turn % len(RELATIONS) if mode is Mode.WHOLE else None
    for one, other in combinations(range(len(made)), 2):
        first, second = made[one], made[other]
        is_free = all(_may_be_related(graph.input_types[p], domains[p]) for p in (one, other))
        if not is_free or first.dtype != second.dtype or first.size < 2:
            continue
        if first.shape == second.shape:
            is_square = first.ndim == 2 and first.shape[0] == first.shape[1]
            if is_square and mode is Mode.RELATED:
                made[other] = _related_matrix(first, turn)
                continue
            length = first.shape[-1]
            rows = [np.ascontiguousarray(a).reshape(-1, length) for a in (first, second)]
            relate(rows[0], rows[1], random, only)
            made[one], made[other] = (
                _defined(a.reshape(first.shape), domains[p])
                for a, p in zip(rows, (one, other), strict=True)
            )
        elif mode is Mode.RELATED:
            _repeat_parameter(made, one, other)
    for place in range(len(made)):
        if domains[place].is_positive and graph.input_types[place].dtype.is_float:
            made[place] = np.abs(made[place])
            made[place][made[place] == 0] = np.ones((), made[place].dtype)


def _may_be_related(type_: TensorType, domain: Domain) -> bool:
    if type_.dtype.is_float:
        return True
    is_index = domain.index_limit is not None or domain.span is not None
    return type_.dtype.is_integer and not (is_index or domain.levels or domain.unset)


def _related_matrix(matrix: Array, turn: int) -> Array:
    made = (matrix.T, matrix, np.negative(matrix), np.add(matrix, matrix))
    return np.ascontiguousarray(made[turn % len(made)])


def _repeat_parameter(made: list[Array], one: int, other: int) -> None:
    """Let some rows of the larger be the smaller, reversed and doubled by turns."""
    large, small = sorted((one, other), key=lambda place: -made[place].size)
    length = made[large].shape[-1] if made[large].ndim else 0
    if made[small].size != length or made[large].size < 2 * length:
        return
    rows, row = made[large].reshape(-1, length), made[small].reshape(-1)
    with np.errstate(over="ignore"):
        # Of two larger inputs not in the same rows.
        for turn, repeated in enumerate((row, row[::-1], np.add(row, row))):
            rows[2 * turn + large % 2 :: 7] = repeated
