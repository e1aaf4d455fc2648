"""What a thread's values are where the data is unknown: numbers, or terms that are one if equal.

A number is the bits of an integer or a float. A term of integers is a sum of multiples where it can
be; two's complement makes sums right at any width.
"""

from collections.abc import Iterable
from functools import cache

from kernelwright.errors import KernelwrightError

_COMMUTING = frozenset({"fadd", "fmul", "add", "mul", "and", "or", "xor"})
_WIDE = 512
"""Bits in which sums of integers of any width are themselves."""
_MIRRORED = {"ugt": "ult", "uge": "ule", "sgt": "slt", "sge": "sle"}


class UnprovenError(KernelwrightError):
    """A text does something of which nothing is proven."""


class Term:
    """An operation on values; made by `term`, so that equal ones are the same object."""

    __slots__ = ("args", "high", "low", "name", "number")

    def __init__(self, number: int, name: str, args: tuple[object, ...]) -> None:
        self.number, self.name, self.args = number, name, args
        self.low, self.high = 0, 1 << 64
        """Between these lies the integer that it is, both included."""

    def __repr__(self) -> str:
        return f"{self.name}{self.args}"


Value = int | Term
_known: dict[tuple[object, ...], Term] = {}


def term(name: str, *args: object) -> Term:
    """Return the term of an operation."""
    key = (name, *args)
    found = _known.get(key)
    if found is None:
        found = _known[key] = Term(len(_known), name, args)
    return found


def forget() -> None:
    """Drop all terms; those that are still held equal no later one."""
    _known.clear()
    _bounded.cache_clear()


def unknown(name: str, *args: object, low: int, high: int) -> Value:
    """Return an integer of which only its bounds are known."""
    return low if low == high else _bounded(name, args, low, high)


@cache
def _bounded(name: str, args: tuple[object, ...], low: int, high: int) -> Term:
    found = term(name, *args, low, high)
    found.low, found.high = low, high
    return found


def parts(value: Value) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """Return a sum's constant and its terms with their factors."""
    if isinstance(value, int):
        return value, ()
    if value.name == "sum":
        return value.args[0], value.args[1]  # type: ignore[return-value]
    return 0, ((value, 1),)


def total(constant: int, factors: Iterable[tuple[Term, int]], width: int) -> Value:
    """Return a constant plus multiples of terms, as an integer of so many bits."""
    gathered: dict[Term, int] = {}
    for part, factor in factors:
        gathered[part] = gathered.get(part, 0) + factor
    constant = _near_zero(constant, width)
    kept = tuple(
        sorted(
            ((part, near) for part, f in gathered.items() if (near := _near_zero(f, width))),
            key=lambda pair: pair[0].number,
        )
    )
    if not kept:
        return constant % (1 << width)
    if constant == 0 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    found = term("sum", constant, kept)
    ends = [sorted((part.low * f, part.high * f)) for part, f in kept]
    found.low = constant + sum(low for low, _ in ends)
    found.high = constant + sum(high for _, high in ends)
    return found


def _near_zero(number: int, width: int) -> int:
    """Return what is congruent to a number and closest to zero."""
    half = 1 << (width - 1)
    return (number + half) % (1 << width) - half


def scaled(value: Value, factor: int, width: int) -> Value:
    """Return a multiple."""
    constant, factors = parts(value)
    return total(constant * factor, ((p, f * factor) for p, f in factors), width)


def added(a: Value, b: Value, width: int) -> Value:
    """Return a sum."""
    (first, some), (second, others) = parts(a), parts(b)
    return total(first + second, (*some, *others), width)


def _is_unsigned(value: Value, width: int) -> bool:
    return isinstance(value, int) or (value.low >= 0 and value.high < 1 << width)


def _is_signed(value: Value, width: int) -> bool:
    half = 1 << (width - 1)
    if isinstance(value, int):
        return value < half
    return value.low >= -half and value.high < half


def _remainder(value: Value, modulus: int) -> int | None:
    """Return a value modulo a number where its terms do not matter."""
    constant, factors = parts(value)
    return None if any(factor % modulus for _, factor in factors) else constant % modulus


def _modulo(value: Value, width: int) -> Value | None:
    """Return the lower bits of a value where, without what does not reach them, it is they."""
    left = total(*parts(value), width)
    if _ends(left)[0] < 0:
        left = added(left, 1 << width, _WIDE)
    low, high = _ends(left)
    return left if low >= 0 and high >> width == 0 else None


def _quotient(value: Value, divisor: int, width: int) -> Value | None:
    """Return an unsigned quotient, rounded down, where it is a sum too."""
    constant, factors = parts(value)
    if not _is_unsigned(value, width):
        return None
    kept = [(p, f) for p, f in factors if f % divisor == 0]
    left = total(constant % divisor, [(p, f) for p, f in factors if f % divisor], _WIDE)
    low, high = _ends(left)
    if low < 0 or high >= divisor:
        return None
    return total(constant // divisor, ((p, f // divisor) for p, f in kept), width)


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def _conjunction(a: Value, mask: int, width: int) -> Value | None:
    if (low := _remainder(a, 1 << mask.bit_length())) is not None:
        return low & mask
    if mask & (mask + 1) == 0 and (least := _modulo(a, mask.bit_length())) is not None:
        return least
    low_bits = (mask & -mask) - 1
    is_below = isinstance(a, Term) and a.low >= 0 and a.high < 1 << mask.bit_length()
    is_upper = mask + low_bits + 1 == 1 << mask.bit_length()
    if is_below and is_upper and (low := _remainder(a, low_bits + 1)) is not None:
        return added(a, -low, width)
    dropped = (1 << width) - 1 - mask
    if dropped & (dropped + 1) == 0 and (low := _remainder(a, dropped + 1)) is not None:
        return added(a, -low, width)
    return None


def _disjunction(a: Value, b: int) -> bool:
    low = _remainder(a, 1 << b.bit_length())
    return low is not None and low & b == 0


def _of_numbers(name: str, a: int, b: int, width: int) -> int | None:
    mask = (1 << width) - 1
    sa, sb = _signed(a, width), _signed(b, width)
    if name in ("udiv", "urem", "sdiv", "srem"):
        if b == 0 or (name[0] == "s" and (sa < 0 or sb < 0)):
            return None
        return a // b if name.endswith("div") else a % b
    if name in ("shl", "lshr", "ashr"):
        if b >= width:
            return None
        return ((a << b) if name == "shl" else (a if name == "lshr" else sa) >> b) & mask
    found = {
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
        "umin": min(a, b),
        "umax": max(a, b),
        "smin": a if sa <= sb else b,
        "smax": a if sa >= sb else b,
        "usub.sat": max(a - b, 0),
        "uadd.sat": min(a + b, mask),
    }
    return found.get(name)


def integer(name: str, a: Value, b: Value, width: int, *, is_disjoint: bool = False) -> Value:
    """Return the result of an operation on two integers of so many bits."""
    if name in ("add", "sub"):
        return added(a, b if name == "add" else scaled(b, -1, width), width)
    if isinstance(a, int) and name in _COMMUTING:
        a, b = b, a
    if name == "mul" and isinstance(b, int):
        return scaled(a, b, width)
    if isinstance(b, int):
        known: Value | None
        if isinstance(a, int):
            known = _of_numbers(name, a, b, width)
        else:
            known = _by_number(name, a, b, width, is_disjoint=is_disjoint)
        if known is not None:
            return known
    elif is_disjoint:
        return added(a, b, width)
    if a is b and name in ("and", "or", "umin", "umax", "smin", "smax"):
        return a
    return _opaque(name, a, b, width)


def _by_number(name: str, a: Term, b: int, width: int, *, is_disjoint: bool) -> Value | None:
    if name == "shl" and b < width:
        return scaled(a, 1 << b, width)
    if name == "lshr" or (name == "ashr" and _is_signed(a, width) and a.low >= 0):
        return _quotient(a, 1 << b, width) if b < width else None
    if name == "udiv" and b:
        return _quotient(a, b, width)
    if name == "urem" and b and _is_unsigned(a, width):
        return _remainder(a, b)
    if name == "and":
        return 0 if b == 0 else a if b == (1 << width) - 1 else _conjunction(a, b, width)
    if name == "or" and (is_disjoint or _disjunction(a, b)):
        return added(a, b, width)
    if name == "xor" and width == 1:
        return negated(a) if b else a
    return _of_range(name, a, b, width)


def _of_range(name: str, a: Term, b: int, width: int) -> Value | None:
    """Return a least or greatest that is always the same side."""
    if name not in ("umin", "umax", "smin", "smax"):
        return None
    is_less = compared(("u" if name[0] == "u" else "s") + "le", a, b, width)
    if isinstance(is_less, Term):
        return None
    return a if bool(is_less) is name.endswith("min") else b


def _opaque(name: str, a: Value, b: Value, width: int) -> Term:
    if name in _COMMUTING and _order(b) < _order(a):
        a, b = b, a
    found = term(name, width, a, b)
    found.high = min(found.high, (1 << width) - 1)
    if name == "and" and isinstance(b, int):
        found.high = min(found.high, b)
    return found


def _order(value: object) -> tuple[int, int]:
    if isinstance(value, Term):
        return 0, value.number
    return 1, value if isinstance(value, int) else 0


def converted(name: str, value: Value, width: int, wanted: int) -> Value:
    """Return an integer of another width: `zext`, `sext` or `trunc`."""
    if isinstance(value, int):
        return (_signed(value, width) if name == "sext" else value) % (1 << wanted)
    if name == "trunc":
        found = total(*parts(value), wanted)
        if isinstance(found, int) or _is_unsigned(found, wanted) or _is_signed(found, wanted):
            return found
        return _piece(value, 0, wanted)
    if (_is_unsigned if name == "zext" else _is_signed)(value, width):
        return value
    half = 1 << (width - 1)
    ends = (0, 2 * half - 1) if name == "zext" else (-half, half - 1)
    return unknown(name, width, value, low=ends[0], high=ends[1])


def _piece(value: Term, shift: int, width: int) -> Value:
    return unknown("bits", value, shift, low=0, high=(1 << width) - 1)


def compared(predicate: str, a: Value, b: Value, width: int) -> Value:
    """Return 1 or 0 where it is known whether two integers compare so, a term elsewhere."""
    if predicate in _MIRRORED:
        return compared(_MIRRORED[predicate], b, a, width)
    if predicate in ("ne", "ule", "sle"):
        reverse = {"ne": "eq", "ule": "ult", "sle": "slt"}[predicate]
        return negated(compared(reverse, *((a, b) if predicate == "ne" else (b, a)), width))
    if predicate == "eq":
        return _equal(a, b, width)
    fits = _is_unsigned if predicate == "ult" else _is_signed
    if isinstance(a, int):
        a = _signed(a, width) if predicate == "slt" else a
    if isinstance(b, int):
        b = _signed(b, width) if predicate == "slt" else b
    if (isinstance(a, int) or fits(a, width)) and (isinstance(b, int) or fits(b, width)):
        # The integers themselves, not what is congruent to them.
        low, high = _ends(added(a, scaled(b, -1, _WIDE), _WIDE))
        if high < 0 or _ends(a)[1] < _ends(b)[0]:
            return 1
        if low >= 0 or _ends(a)[0] >= _ends(b)[1]:
            return 0
    return _condition(predicate, width, a, b)


def _equal(a: Value, b: Value, width: int) -> Value:
    distance = added(a, scaled(b, -1, width), width)
    if isinstance(distance, int):
        return int(distance == 0)
    if distance.low > 0 and distance.high < 1 << width:
        return 0
    if distance.high < 0 and distance.low > -(1 << width):
        return 0
    return _condition("eq", width, *sorted((a, b), key=_order))


def _condition(name: str, *args: object) -> Term:
    found = term(name, *args)
    found.high = 1
    return found


def _ends(value: Value) -> tuple[int, int]:
    if isinstance(value, Term):
        return value.low, value.high
    number = _near_zero(value, _WIDE)
    return number, number


def negated(condition: Value) -> Value:
    """Return the opposite of a condition."""
    if isinstance(condition, int):
        return 1 - condition
    if condition.name == "not":
        return condition.args[0]  # type: ignore[return-value]
    return _condition("not", condition)


def chosen(condition: Value, a: object, b: object) -> object:
    """Return one of two values of any kind by a condition."""
    if isinstance(condition, int):
        return a if condition else b
    if a is b or a == b:
        return a
    if condition.name == "not":
        return chosen(condition.args[0], b, a)  # type: ignore[arg-type]
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(chosen(condition, x, y) for x, y in zip(a, b, strict=True))
    if not isinstance(a, Value) or not isinstance(b, Value):
        raise UnprovenError("a pointer hangs on data.")
    found = term("choice", condition, a, b)
    ends = [(v.low, v.high) if isinstance(v, Term) else (v, v) for v in (a, b)]
    found.low, found.high = min(low for low, _ in ends), max(high for _, high in ends)
    return found


def is_commuting(value: Term) -> bool:
    """Say whether the last two operands of a term may change places."""
    return value.name in _COMMUTING


def operation(name: str, *args: object) -> Term:
    """Return an operation that nothing is known of but that equal operands have equal results.

    Sums and products of floats are those of either order: they may differ in a NaN's payload alone.
    """
    if name in _COMMUTING and len(args) == 4:
        args = (*args[:2], *sorted(args[2:], key=_order))
    return term(name, *args)
