"""What an expression need not say, seen in its operands."""

from kernelwright.metal.lower.index import Axis
from kernelwright.metal.lower.term import Apply, Literal, Place, Reduced, Reducer, Term

NEUTRAL = frozenset({("{0} * {1}", "1.0f"), ("{0} / {1}", "1.0f"), ("{0} - {1}", "0.0f")})
"""Expressions with the number that makes them their first operand."""


def is_place(term: Term) -> bool:
    """Say whether a term is a place in an array: never -0, so that adding 0 changes nothing."""
    return isinstance(term, Apply) and isinstance(term.arguments[0], Place)


def text_of(term: Term) -> str:
    """Return a number's text, nothing for other terms."""
    return term.text if isinstance(term, Literal) else ""


_SHORT_POWERS = {"2.0f": "{0} * {0}", "3.0f": "{0} * {0} * {0}"}


def short_power(exponent: Term) -> str | None:
    """Return the product that a small power is."""
    if not isinstance(exponent, Literal) or not exponent.dtype.is_float:
        return None
    return _SHORT_POWERS.get(exponent.text)


def is_shifted(body: Term, axis: Axis) -> bool:
    """Say whether a value had the maximum over `axis` taken from it already."""
    match body:
        case Apply(
            template="{0} - {1}",
            arguments=(shifted, Reduced(reducer=Reducer.MAXIMUM, body=inner, axis=over)),
        ):
            return shifted is inner and over == axis
    return False


def mean_name(body: Term) -> str:
    """Name a mean after what it averages."""
    match body:
        case Apply(template="{0} * {0}", arguments=(Apply(template="{0} - {1}"),)):
            return "variance"
        case Apply(template="{0} * {0}"):
            return "mean_square"
        case Apply(template="{0} + {1}", arguments=(first, _)):
            return mean_name(first)
    return "mean"
