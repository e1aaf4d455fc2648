"""What stands for a model's caches while a decode step is recorded as a function of arrays.

A plain cache counts its tokens in Python, which a recording would keep for good. Here how far it is
enters as an array, and a token is put in by an index.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeGuard

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.models.recurrent import kept_arrays
from kernelwright.runtime.models.recurrent import kind as kept_class

if TYPE_CHECKING:
    from mlx_lm.models.cache import ArraysCache, KVCache


class GrowingCache(Protocol):
    """A plain cache of arrays, the number of its tokens included."""

    keys: mx.array
    values: mx.array
    offset: mx.array

    def take(self, keys: mx.array, values: mx.array) -> None:
        """Put in one token of shape (batch, heads, 1, width).

        Raises:
            UnsupportedError: there are several, or one was put in before.
        """


@cache
def _plain_class() -> type:
    from mlx_lm.models.cache import KVCache

    return KVCache


@cache
def _growing_class() -> type[GrowingCache]:
    class StepCache(_plain_class()):  # type: ignore[misc]
        """A plain cache to the model's code, whatever class that asks for."""

        def __init__(
            self, keys: mx.array, values: mx.array, before: mx.array, after: mx.array
        ) -> None:
            """Hold `before` tokens of buffers of shape (batch, heads, capacity, width)."""
            self.keys, self.values = keys, values
            self.offset = before
            self._after = after

        def take(self, keys: mx.array, values: mx.array) -> None:
            """Put in one token.

            Raises:
                UnsupportedError: there are several, or one was put in before.
            """
            if keys.shape[2] != 1 or self.offset is self._after:
                raise UnsupportedError("a step puts more than one token into a cache.")
            at = self.offset.reshape(1, 1, 1, 1)
            self.keys, self.values = (
                mx.put_along_axis(buffer, mx.broadcast_to(at, new.shape), new, axis=2)
                for buffer, new in ((self.keys, keys), (self.values, values))
            )
            self.offset = self._after

        def update_and_fetch(self, keys: mx.array, values: mx.array) -> NoReturn:
            """Refuse: how much would be fetched differs from step to step.

            Raises:
                UnsupportedError: always.
            """
            raise UnsupportedError("a part of the step that no kernel serves reads a cache.")

    return StepCache


def as_growing(value: object) -> GrowingCache | None:
    """Return a cache of a step that is being recorded; None for any other."""
    return value if type(value) is _growing_class() else None


def is_plain(value: object) -> "TypeGuard[KVCache]":
    """Say whether a value is mlx-lm's plain cache, of exactly that class."""
    return type(value) is _plain_class()


def is_kept(value: object) -> bool:
    """Say whether a value is mlx-lm's cache of numbered arrays, with all of them there."""
    kept = kept_arrays(value)
    return kept is not None and kept.is_plain and None not in kept.items


def growing(buffers: Sequence[mx.array], before: mx.array, after: mx.array) -> GrowingCache:
    """Return what stands for a plain cache with these buffers."""
    made: GrowingCache = _growing_class()(*buffers, before, after)  # type: ignore[call-arg]
    return made


def keeping(arrays: Sequence[mx.array]) -> "ArraysCache":
    """Return what stands for a cache of numbered arrays."""
    made: ArraysCache = kept_class()(len(arrays))
    made.cache = list(arrays)  # type: ignore[arg-type]
    return made
