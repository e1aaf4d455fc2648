"""The state of MLX in which functions are traced: on the CPU, uncompiled, and nothing stays."""

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.ir.trace.random_state import kept_random_state

_TRACING: dict[int, int] = {}
"""How many captures are under way in each thread."""


def is_capturing() -> bool:
    """Say whether this thread captures a function, in which a kernel has no place."""
    return bool(_TRACING) and threading.get_ident() in _TRACING


@contextmanager
def tracing() -> Iterator[None]:
    """Trace on the CPU and without `mx.compile`, so that every machine sees the same graph."""
    compiles = _compile_is_enabled()
    mx.disable_compile()
    contiguous = mx.contiguous
    # MLX cannot export its copy to a dense layout; the values are the argument's.
    mx.contiguous = _unchanged
    thread = threading.get_ident()
    _TRACING[thread] = _TRACING.get(thread, 0) + 1
    try:
        with kept_random_state(), mx.stream(mx.cpu):
            yield
    finally:
        _TRACING[thread] -= 1
        if not _TRACING[thread]:
            del _TRACING[thread]
        mx.contiguous = contiguous
        if compiles:
            mx.enable_compile()


@contextmanager
def unchanged_parameters(held: Sequence[mx.array], name: str) -> Iterator[None]:
    """Give arrays that a trace changed in place their values back, and refuse the function."""
    # Another object of the same array: what happens to one in place does not happen to both.
    before = [a.astype(a.dtype) for a in held]
    yield
    try:
        mx.eval(list(held))
    except (ValueError, RuntimeError) as e:
        for array, value in zip(held, before, strict=True):
            array[...] = value
        raise UnsupportedError(
            f"{name} changes an array in place that it keeps, such as a cache; pass the array as "
            "an argument."
        ) from e


def _unchanged(a: mx.array, allow_col_major: bool = False, *, stream: object = None) -> mx.array:
    return a


def _compile_is_enabled() -> bool:
    # MLX has no getter; a drawing of a compiled function shows whether its ops were fused.
    drawing = io.StringIO()
    with mx.stream(mx.cpu):
        mx.export_to_dot(drawing, mx.compile(lambda a: mx.exp(mx.sin(a)))(mx.array(1.0)))
    return "Compiled" in drawing.getvalue()
