"""Terms that hang on few numbers of few bits: whether two are one for all that these may be."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    parts,
)

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]
Bits = NDArray[np.uint64]
_MOST_WAYS = 1 << 16
_MOST_TERMS = 400
"""Of one side: what is larger hangs on more than it is worth to look for."""
_BITS = {"half": np.uint16, "float": np.uint32, "double": np.uint64}
_FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
_NAN = np.uint64(0xFFFF_FFFF_FFFF)
"""Stands for each NaN of a type: no number of 16 or 32 bits is as large."""


def always_equal(one: Value, other: Value, kind: str = "") -> bool:
    """Say whether two values are the same bits for all that their unknown parts may be.

    Args:
        one: The first.
        other: The second.
        kind: The type of a float, of which all NaN are one.
    """
    leaves = dict.fromkeys((*_leaves(one), *_leaves(other)))
    ranges = [range(leaf.low, leaf.high + 1) for leaf in leaves]
    if not leaves or prod(map(len, ranges)) > _MOST_WAYS:
        return False
    axes = [np.array(r, np.int64).astype(np.uint64) for r in ranges]
    grids = np.meshgrid(*axes, indexing="ij")
    known: dict[Term, Bits] = {leaf: g.ravel() for leaf, g in zip(leaves, grids, strict=True)}
    with np.errstate(all="ignore"):
        try:
            first, second = (_bits(value, known) for value in (one, other))
        except UnprovenError:
            return False
    if kind:
        first, second = (_without_payload(bits, kind) for bits in (first, second))
    return bool(np.all(first == second))


def gives_itself(value: Term, made: Term, numbers: Bits) -> bool:
    """Say whether what is made of a float alone is that float for all numbers that it may be."""
    left, seen = [made], {value}
    while left:
        part = left.pop()
        if part in seen:
            continue
        seen.add(part)
        if _is_leaf(part) or len(seen) > _MOST_TERMS:
            return False
        left += [operand for operand in _operands(part) if isinstance(operand, Term)]
    with np.errstate(all="ignore"), suppress(UnprovenError):
        found = _bits(made, {value: numbers})
        sides = (_without_payload(bits, "float") for bits in (numbers, found))
        return bool(np.all(np.equal(*sides)))
    return False


def _is_leaf(value: Term) -> bool:
    return value.name in ("load", "thread", "threadgroup", "simdgroup", "row")


def _leaves(value: Value) -> Iterator[Term]:
    """Yield what a value hangs on; nothing where that is too much to look for."""
    seen, left = set[Term](), [value]
    found = list[Term]()
    while left:
        part = left.pop()
        if not isinstance(part, Term) or part in seen:
            continue
        seen.add(part)
        if _is_leaf(part):
            found.append(part)
        elif len(seen) > _MOST_TERMS:
            raise UnprovenError("it hangs on too much.")
        else:
            left += _operands(part)
    yield from sorted(found, key=operator.attrgetter("number"))


def _operands(value: Term) -> Sequence[Value]:
    if value.name == "sum":
        return [part for part, _ in parts(value)[1]]
    return [part for part in value.args if isinstance(part, Term)]


def _bits(value: object, known: dict[Term, Bits]) -> Bits:
    """Return what a value is, as its bits, where what it hangs on is so.

    Raises:
        UnprovenError: there is an operation whose results are not known to the bit.
    """
    if isinstance(value, int):
        return np.array(value % (1 << 64), np.uint64)
    if not isinstance(value, Term):
        raise UnprovenError("it hangs on what is no number.")
    if value not in known:
        known[value] = _made(value, known)
    return known[value]


def _made(value: Term, known: dict[Term, Bits]) -> Bits:
    name, args = value.name.strip(), value.args
    if name == "sum":
        return _sum(value, known)
    if name == "choice":
        condition, first, second = (_bits(part, known) for part in args)
        return np.where(condition != 0, first, second)
    if name == "not":
        return np.uint64(1) - _bits(args[0], known)
    if name in ("bits", "zext", "sext"):
        return _part(value, known)
    if name in _OF_INTEGERS:
        width = _number(args[0])
        a, b = (_cut(_bits(side, known), width) for side in args[1:])
        return _cut(_OF_INTEGERS[name](a, b, width), width)
    return _of_floats(name, args, known)


def _sum(value: Term, known: dict[Term, Bits]) -> Bits:
    found = _bits(value.args[0], known)
    for part, factor in parts(value)[1]:
        found = found + _bits(part, known) * np.uint64(factor % (1 << 64))
    return found


def _part(value: Term, known: dict[Term, Bits]) -> Bits:
    if value.name == "bits":
        whole, shift, _, high = value.args
        return (_bits(whole, known) >> np.uint64(_number(shift))) & np.uint64(_number(high))
    width, whole = _number(value.args[0]), value.args[1]
    cut = _cut(_bits(whole, known), width)
    return cut if value.name == "zext" else _signed(cut, width).astype(np.uint64)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise UnprovenError("a width hangs on data.")
    return value


def _cut(bits: Bits, width: int) -> Bits:
    return bits & np.uint64((1 << width) - 1)


def _signed(bits: Bits, width: int) -> NDArray[np.int64]:
    top = np.uint64(64 - width)
    return (bits << top).astype(np.int64) >> np.int64(64 - width)


def _shifted(rule: Callable[[Bits, Bits], Bits]) -> Callable[[Bits, Bits, int], Bits]:
    def shifted(a: Bits, b: Bits, width: int) -> Bits:
        if np.any(b >= np.uint64(width)):
            raise UnprovenError("it shifts by more than there is.")
        return rule(a, b)

    return shifted


_OF_INTEGERS: Mapping[str, Callable[[Bits, Bits, int], Bits]] = {
    "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "mul": lambda a, b, _: a * b,
    "shl": _shifted(lambda a, b: a << b),
    "lshr": _shifted(lambda a, b: a >> b),
    "umin": lambda a, b, _: np.minimum(a, b),
    "umax": lambda a, b, _: np.maximum(a, b),
    "smin": lambda a, b, w: np.minimum(_signed(a, w), _signed(b, w)).astype(np.uint64),
    "smax": lambda a, b, w: np.maximum(_signed(a, w), _signed(b, w)).astype(np.uint64),
    "eq": lambda a, b, _: (a == b).astype(np.uint64),
    "ult": lambda a, b, _: (a < b).astype(np.uint64),
    "slt": lambda a, b, w: (_signed(a, w) < _signed(b, w)).astype(np.uint64),
}
_ARITHMETIC: Mapping[str, Callable[..., Floats]] = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "fneg": np.negative,
}
_ORDERS: Mapping[str, Callable[[Floats, Floats], Flags]] = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "ne": np.not_equal,
}


def _of_floats(name: str, args: Sequence[object], known: dict[Term, Bits]) -> Bits:
    if name in _ARITHMETIC and args[0] == "":
        # Lenient arithmetic may round otherwise.
        kind = str(args[1])
        return _as_bits(_ARITHMETIC[name](*_floats(args[2:], kind, known)), kind)
    if name.startswith("fcmp ") and len(name.split()) == 2:
        a, b = _floats(args[1:], str(args[0]), known)
        return _compared(name[5:], a, b).astype(np.uint64)
    if name in ("fpext", "fptrunc"):
        source, target, value = args
        (number,) = _floats([value], str(source), known)
        return _as_bits(number, str(target))
    if name in ("uitofp", "sitofp"):
        source, target, value = args
        width = int(str(source)[1:])
        whole = _cut(_bits(value, known), width)
        # A double holds what is of 32 bits, so that it is rounded once.
        if width > 32 or str(target) not in _FLOATS:
            raise UnprovenError(f"it converts {source} to {target}.")
        signed = _signed(whole, width) if name == "sitofp" else whole
        return _as_bits(signed.astype(np.float64), str(target))
    if name.startswith("llvm.fabs.") and args[0] == "":
        width = int(name.rpartition("f")[2])
        return _bits(args[1], known) & np.uint64((1 << (width - 1)) - 1)
    raise UnprovenError(f"results of {name} are not known to the bit.")


def _compared(order: str, a: Floats, b: Floats) -> Flags:
    is_lost: Flags = np.isnan(a) | np.isnan(b)
    if order in ("ord", "uno"):
        return is_lost if order == "uno" else ~is_lost
    if order[0] not in "ou" or order[1:] not in _ORDERS:
        raise UnprovenError(f"it compares floats by {order}.")
    found = _ORDERS[order[1:]](a, b)
    return (found | is_lost) if order[0] == "u" else (found & ~is_lost)


def _floats(values: Sequence[object], kind: str, known: dict[Term, Bits]) -> list[Floats]:
    return [_as_floats(_bits(value, known), kind) for value in values]


def _as_floats(bits: Bits, kind: str) -> Floats:
    if kind == "bfloat":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind not in _BITS:
        raise UnprovenError(f"numbers of the type {kind}.")
    return bits.astype(_BITS[kind]).view(_FLOATS[kind])


def _as_bits(numbers: Floats, kind: str) -> Bits:
    """Return floats as the bits of a type, rounded to nearest."""
    if kind == "bfloat":
        if numbers.dtype != np.float32:
            raise UnprovenError("it rounds to bfloat twice.")
        bits = np.atleast_1d(numbers).view(np.uint32).astype(np.uint64).reshape(numbers.shape)
        odd = (bits >> np.uint64(16)) & np.uint64(1)
        rounded = (bits + np.uint64(0x7FFF) + odd) >> np.uint64(16)
        return np.where(np.isnan(numbers), np.uint64(0x7FC0), rounded)
    if kind not in _FLOATS:
        raise UnprovenError(f"numbers of the type {kind}.")
    rounded = np.atleast_1d(numbers.astype(_FLOATS[kind]))
    return rounded.view(_BITS[kind]).astype(np.uint64).reshape(numbers.shape)


def _without_payload(bits: Bits, kind: str) -> Bits:
    numbers = np.atleast_1d(_as_floats(np.atleast_1d(bits), kind))
    return np.where(np.isnan(numbers), _NAN, np.atleast_1d(bits))
