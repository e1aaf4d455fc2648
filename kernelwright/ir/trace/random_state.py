"""A trace draws random numbers, and a program that sets a seed must not notice."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import cast

import mlx.core as mx

_SEEDS = count(0x6B77_0000_0000_0000)


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Give MLX's random state of this thread back as it was; meanwhile it is another each time.

    Two traces of a function that draws without a key thus differ, by which that is known.
    """
    # Another object of the same array. It is not read: inside a transformation of the caller's it
    # may have no value, and what was drawn so far need not be computed.
    key = _key().astype(mx.uint32)
    mx.random.seed(next(_SEEDS))
    try:
        yield
    finally:
        # The state takes no other array; the one it has takes another value.
        _key()[...] = key


def _key() -> mx.array:
    # MLX's stubs know the state as an object.
    (key,) = cast("list[mx.array]", mx.random.state)
    return key
