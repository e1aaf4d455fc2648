"""Expression text with its binding strength, so that only needed parentheses are written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Binding(IntEnum):
    """How tightly an expression holds together; C++'s order."""

    ATOM = 0
    UNARY = 1
    MULTIPLY = 2
    ADD = 3
    SHIFT = 4
    COMPARE = 5
    EQUAL = 6
    AND = 7
    XOR = 8
    OR = 9
    LOGICAL_AND = 10
    LOGICAL_OR = 11
    TERNARY = 12


_SIGNS = {
    "*": Binding.MULTIPLY,
    "/": Binding.MULTIPLY,
    "%": Binding.MULTIPLY,
    "+": Binding.ADD,
    "-": Binding.ADD,
    "<<": Binding.SHIFT,
    ">>": Binding.SHIFT,
    "<": Binding.COMPARE,
    "<=": Binding.COMPARE,
    ">": Binding.COMPARE,
    ">=": Binding.COMPARE,
    "==": Binding.EQUAL,
    "!=": Binding.EQUAL,
    "&": Binding.AND,
    "^": Binding.XOR,
    "|": Binding.OR,
    "&&": Binding.LOGICAL_AND,
    "||": Binding.LOGICAL_OR,
}
_INFIX = re.compile(r"^\{0\} (\S+) (\{1\}|\{0\}|0)$")
_PREFIX = re.compile(r"^[-!~]\{0\}$")
_CALL = re.compile(r"^[\w:]+\((?:\{\d\}(?:, )?)+\)$")


@dataclass(frozen=True, slots=True)
class Expression:
    """MSL text and how tightly it holds together."""

    text: str
    binding: Binding = Binding.ATOM

    def inside(self, limit: Binding) -> str:
        """Return the text, in parentheses where it binds less tightly than `limit`."""
        return self.text if self.binding <= limit else f"({self.text})"


def fill(template: str, operands: Sequence[Expression]) -> Expression:
    """Write operands into an expression over `{0}`, `{1}` …."""
    if infix := _INFIX.match(template):
        return _infix(_SIGNS[infix[1]], template, infix[1], operands)
    if _PREFIX.match(template):
        # Two signs in a row would become one token.
        text = operands[0].inside(Binding.ATOM)
        return Expression(template.replace("{0}", text), Binding.UNARY)
    if _CALL.match(template):
        return Expression(template.format(*(o.text for o in operands)))
    if " ? " in template:
        return Expression(
            template.format(*(o.inside(Binding.ATOM) for o in operands))
            if template != "{0} ? {1} : {2}"
            else template.format(*(o.inside(Binding.LOGICAL_OR) for o in operands)),
            Binding.TERNARY,
        )
    inner = template.removesuffix(")").partition("(")
    if inner[0] and re.fullmatch(r"[\w:]+", inner[0]):
        return Expression(f"{inner[0]}({fill(inner[2], operands).text})")
    return Expression(template.format(*(o.inside(Binding.ATOM) for o in operands)), Binding.TERNARY)


def _infix(
    binding: Binding, template: str, sign: str, operands: Sequence[Expression]
) -> Expression:
    left = operands[0].inside(_left_limit(binding))
    if template.endswith("{0}"):
        return Expression(f"{left} {sign} {left}", binding)
    if template.endswith("0"):
        return Expression(f"{left} {sign} 0", binding)
    tighter = Binding(max(binding - 1, 0))
    limit = tighter if binding < Binding.SHIFT else Binding.UNARY
    # `a && b && c` groups either way, while arithmetic keeps the order that was asked for.
    if binding in (Binding.LOGICAL_AND, Binding.LOGICAL_OR):
        limit = Binding.EQUAL
    if binding in (Binding.COMPARE, Binding.EQUAL):
        limit = Binding.ADD
    return Expression(f"{left} {sign} {operands[1].inside(limit)}", binding)


def _left_limit(binding: Binding) -> Binding:
    """Clang warns when mixed bit, shift and logical operators lean on precedence."""
    if binding <= Binding.ADD:
        return binding
    if binding in (Binding.LOGICAL_AND, Binding.LOGICAL_OR):
        return Binding.EQUAL
    return Binding.ADD if binding in (Binding.COMPARE, Binding.EQUAL) else Binding.UNARY
