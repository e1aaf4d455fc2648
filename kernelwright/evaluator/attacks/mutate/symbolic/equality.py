"""Whether what two kernels leave is the same where their terms are not."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kernelwright.evaluator.attacks.mutate.symbolic.exhaustion import always_equal
from kernelwright.evaluator.attacks.mutate.symbolic.memory import Cell
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    is_commuting,
)

_MOST_TRIES = 64
"""How many pairs of terms are tried for all numbers that they may hang on."""
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
        return is_commuting(one) and self.of(one.args, (*other.args[:-2], *other.args[:-3:-1]))

    def _by_numbers(self, one: Value, other: Value) -> bool:
        self.tries += 1
        if self.tries > _MOST_TRIES:
            return False
        with suppress(UnprovenError):
            return always_equal(one, other, _kind(one) or _kind(other))
        return False


def _kind(value: object) -> str:
    """Return which float a term is; empty where it does not say so."""
    if not isinstance(value, Term):
        return ""
    if value.name == "choice":
        return _kind(value.args[1]) or _kind(value.args[2])
    return str(value.args[1]) if value.name in _ARITHMETIC else ""
