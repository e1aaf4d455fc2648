"""Which integers the examples of an export hold: indices in range, others over their dtype."""

from math import gcd

import numpy as np

from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype

_LARGEST = 300
"""More than a byte holds, while sums and products of them stay in 32 bits."""
_MOST = 101
"""How many different integers an input holds."""
_BYTES = 0x01010101


def integers_of(graph: Graph) -> list[range | None]:
    """Return the integers that each input takes, at most 101; None where it takes fractions.

    Floats take integers where they become indices; flags are neither.
    """
    # Integers of any size, as floats, would drown whatever they are added to.
    is_exact = not any(type_.dtype.is_float for type_ in graph.output_types)
    return [
        _taken(type_, domain, is_exact=is_exact)
        for type_, domain in zip(graph.input_types, domains_of(graph), strict=True)
    ]


def _taken(type_: TensorType, domain: Domain, *, is_exact: bool) -> range | None:
    if type_.dtype is Dtype.BOOL:
        return None
    if not type_.dtype.is_integer:
        return None if domain.index_limit is None else _spread(0, domain.index_limit - 1)
    if domain.unset:
        # The same digit in each byte, below those that are NaN.
        return range(0, 0x40 * _BYTES, _BYTES)
    low, high = _ends(type_, domain, is_exact=is_exact)
    # What a division by zero gives is undefined.
    return _spread(max(low, 1), max(high, 1)) if domain.is_divisor else _spread(low, high)


def _ends(type_: TensorType, domain: Domain, *, is_exact: bool) -> tuple[int, int]:
    limits = np.iinfo(type_.dtype.numpy)
    least, greatest = int(limits.min), int(limits.max)
    if domain.index_limit is not None:
        return 0, domain.index_limit - 1
    if domain.levels is not None:
        return domain.levels
    if domain.is_packed:
        return least, greatest
    if not domain.is_of_any_size:
        # An index is computed of it; how far it may reach is not known.
        return 0, 1
    if domain.span is not None:
        low, high = max(domain.span[0], least), min(domain.span[1], greatest)
        return (low, high) if low <= high else (least, greatest)
    if domain.is_matched:
        return 0, 3
    if domain.is_whole_range and is_exact:
        return least + int(domain.avoids_least and least < 0), greatest
    return max(least, -_LARGEST), min(greatest, _LARGEST)


def _spread(low: int, high: int) -> range:
    """Return integers from one to another; far ones have all remainders of small divisors."""
    step = max(-(-(high - low) // (_MOST - 1)), 1)
    while gcd(step, 30) > 1:
        step += 1
    return range(low, max(high, low) + 1, step)
