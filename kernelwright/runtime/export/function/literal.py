"""Prints values whose Python text is the value."""

import math

import mlx.core as mx

_LITERALS = (bool, int, float, complex, str, bytes, type(None))


def is_literal(value: object) -> bool:
    """Say whether Python's text of a value is the value."""
    if isinstance(value, mx.Dtype):
        return True
    if type(value) in (list, tuple):
        return all(map(is_literal, value))  # type: ignore[call-overload]
    if type(value) is dict:
        return all(is_literal(k) and is_literal(v) for k, v in value.items())
    return type(value) in _LITERALS


def literal(value: object) -> str:
    """Return Python's text of a literal."""
    if isinstance(value, mx.Dtype):
        return f"mx.{str(value).rpartition('.')[2].replace('bool', 'bool_')}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) is list:
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def array_literal(array: mx.array) -> str:
    """Return MLX code of a small array."""
    wide = array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array
    values = wide.tolist()
    return f"mx.array({literal(values)}, {literal(array.dtype)})"
