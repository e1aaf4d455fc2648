"""Rotary embeddings while a module is traced: a part of the graph, or left to MLX's own kernel.

Within the graph they are computed together with what stands around them, such as norms of heads,
and the embeddings of queries and keys by one kernel. How far a cache is enters as an array then.
"""

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType

import mlx.core as mx

from kernelwright.errors import KernelwrightError

_KEPT = 8
Rotate = Callable[..., object]


class StaleError(KernelwrightError):
    """Something is not what it was when the call was traced, such as a parameter's dtype."""


def position(offset: object) -> mx.array:
    """Return how far a cache is as an array of one number.

    Raises:
        StaleError: it is no number, as it was when the call was traced.
    """
    if type(offset) is mx.array and not offset.ndim:
        # Of a step that is being recorded.
        return offset
    if type(offset) is not int:
        raise StaleError("the cache counts its sequences one by one, as it did not when traced.")
    return counted(offset)


@lru_cache(maxsize=_KEPT)
def counted(count: int) -> mx.array:
    """Return a number as an array; all layers of a step ask for the same."""
    return mx.array(count, mx.int32)


def core_name(function: object) -> str:
    """Return the name by which a method looks up `mlx.core` for a rotary embedding, or ''."""
    if not isinstance(function, FunctionType) or "rope" not in function.__code__.co_names:
        return ""
    found = (n for n in function.__code__.co_names if function.__globals__.get(n) is mx)
    return next(found, "")


def rotated(x: mx.array, *args: object, **kwargs: object) -> mx.array:
    """Rotate as MLX's kernel does, which computes in float32 and rounds once."""
    wide = mx.fast.rope(x.astype(mx.float32), *args, **kwargs)  # type: ignore[arg-type]
    return wide.astype(x.dtype)


class CoreWithRope:
    """`mlx.core` with another `fast.rope`."""

    def __init__(self, rope: Rotate) -> None:
        self.fast = _Fast(rope)

    def __getattr__(self, name: str) -> object:
        return getattr(mx, name)


class _Fast:
    def __init__(self, rope: Rotate) -> None:
        self.rope = rope

    def __getattr__(self, name: str) -> object:
        return getattr(mx.fast, name)
