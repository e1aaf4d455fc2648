"""Whether what two kernels leave is the same where their terms are not."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kernelwright.evaluator.attacks.mutate.symbolic.exhaustion import always_equal
from kernelwright.evaluator.attacks.mutate.symbolic.listing import width_of
from kernelwright.evaluator.attacks.mutate.symbolic.memory import Cell
from kernelwright.evaluator.attacks.mutate.symbolic.narrow import is_kept
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    is_commuting,
)

_MOST_TRIES = 64
"""How many pairs of terms are tried for all numbers that they may hang on."""
_SIGNLESS = {
    "fmul": slice(2, 4),
    "llvm.fma": slice(1, 3),
    "llvm.fmuladd": slice(1, 3),
    "llvm.fabs": slice(1, 2),
    "llvm.copysign": slice(1, 2),
}
"""Which operands' sign does not count, of two only where they are one."""
_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "fneg", "fpext", "fptrunc"})


def same_outputs(one: Mapping[Cell, object], other: Mapping[Cell, object]) -> bool:
    """Say whether two kernels leave the same values in the same places."""
    known = _Equality()
    return one.keys() == other.keys() and all(known.of(one[cell], other[cell]) for cell in one)


@dataclass
class _Equality:
    """Pairs of terms that are, or are not, one: by their operands, or for all numbers there are."""

    found: dict[tuple[Value, Value], bool] = field(default_factory=dict)
    tries: int = 0

    def of(self, one: object, other: object) -> bool:
        """Say whether two values are known to be one."""
        if one is other or one == other:
            return True
        if isinstance(one, tuple) and isinstance(other, tuple):
            return len(one) == len(other) and all(map(self.of, one, other))
        if not isinstance(one, Value) or not isinstance(other, Value):
            return False
        if (one, other) not in self.found:
            self.found[one, other] = self._by_operands(one, other) or self._by_numbers(one, other)
        return self.found[one, other]

    def _by_operands(self, one: Value, other: Value) -> bool:
        if isinstance(one, int) or isinstance(other, int) or one.name != other.name:
            return False
        if self.of(one.args, other.args):
            return True
        if is_commuting(one) and self.of(one.args, (*other.args[:-2], *other.args[:-3:-1])):
            return True
        return self._without_signs(one, other)

    def _without_signs(self, one: Term, other: Term) -> bool:
        """Say whether operands have opposite signs that are lost: of a magnitude or a square."""
        where = _SIGNLESS.get(".".join(one.name.split(".")[:2]))
        if where is None:
            return False
        (a, *more), (b, *others) = one.args[where], other.args[where]
        rests = [(*t.args[: where.start], *t.args[where.stop :]) for t in (one, other)]
        is_square = all(x is a for x in more) and all(x is b for x in others)
        return is_square and self.of(*rests) and self._are_opposite(a, b)

    def _are_opposite(self, one: object, other: object) -> bool:
        """Say whether a float is another one with its sign turned, but for a zero's."""
        if not isinstance(one, Term) or not isinstance(other, Term):
            return False
        if one.name == "fneg" or other.name == "fneg":
            turned, kept = (one, other) if one.name == "fneg" else (other, one)
            return self.of(turned.args[-1], kept)
        first, second = _difference(one), _difference(other)
        is_difference = bool(first) and len(first) == len(second)
        return is_difference and self.of(first, second[::-1])

    def _by_numbers(self, one: Value, other: Value) -> bool:
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return False
        with suppress(UnprovenError):
            if always_equal(one, other, _kind(one) or _kind(other)):
                return True
        if not isinstance(one, Term) or not isinstance(other, Term):
            return False
        return is_kept(one, other) or is_kept(other, one)


def _difference(value: Term) -> tuple[object, ...]:
    """Return what a float is the difference of; nothing where it is none."""
    if value.name not in ("fadd", "fsub") or value.args[0] != "":
        return ()
    a, b = value.args[-2:]
    if value.name == "fsub":
        return a, b
    # Less a constant is plus its opposite.
    return (a, b ^ (1 << (width_of(str(value.args[1])) - 1))) if isinstance(b, int) else ()


def _kind(value: object) -> str:
    """Return which float a term is; empty where it does not say so."""
    if not isinstance(value, Term):
        return ""
    if value.name == "choice":
        return _kind(value.args[1]) or _kind(value.args[2])
    return str(value.args[1]) if value.name in _ARITHMETIC else ""
