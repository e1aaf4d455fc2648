"""Metal's functions that differ from MLX's of the same name, as Metal's specification has them.

Source: Metal Shading Language Specification 3.2, sections 6.3 (common) and 6.5 (math functions).
Of two arguments one at least is an array.
"""

from collections.abc import Callable

import mlx.core as mx

Value = mx.array | int | float | bool


def metal_remainder(x: Value, y: Value) -> Value:
    """Return `x - y * trunc(x / y)`, whose sign is that of x."""
    rest = mx.remainder(_magnitude(x), _magnitude(y))
    return mx.where(x < 0, -rest, rest)


def metal_round(x: Value) -> Value:
    """Return the nearest whole number; a half goes away from zero."""
    magnitude = mx.abs(x)  # type: ignore[arg-type]
    below = mx.floor(magnitude)
    nearest = mx.where(magnitude - below >= 0.5, below + 1, below)
    return mx.where(x < 0, -nearest, nearest)


def metal_sign(x: Value) -> Value:
    """Return -1, 0 or 1; 0 of NaN."""
    return mx.where(_is_nan(x), 0, mx.sign(x))  # type: ignore[arg-type]


def metal_clamp(x: Value, low: Value, high: Value) -> Value:
    """Return `fmin(fmax(x, low), high)`: `low` where x is NaN."""
    return metal_minimum(metal_maximum(x, low), high)


def _ignoring_nan(pair: Callable[[Value, Value], mx.array]) -> Callable[[Value, Value], Value]:
    """Return a minimum or maximum that takes the other value where one is NaN."""

    def chosen(x: Value, y: Value) -> Value:
        found = pair(x, y)
        if not mx.issubdtype(found.dtype, mx.floating):
            return found
        if not isinstance(y, mx.array) and y == y:
            return mx.where(_is_nan(x), y, found)
        return mx.where(_is_nan(x), y, mx.where(_is_nan(y), x, found))

    return chosen


def _magnitude(x: Value) -> Value:
    return mx.abs(x) if isinstance(x, mx.array) else abs(x)


def _is_nan(x: Value) -> mx.array | bool:
    return mx.isnan(x) if isinstance(x, mx.array) else x != x


metal_minimum = _ignoring_nan(mx.minimum)
metal_maximum = _ignoring_nan(mx.maximum)
