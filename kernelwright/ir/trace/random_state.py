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
    # MLX's stubs know the state as an object.
    (key,) = cast("list[mx.array]", mx.random.state)
    # Reading evaluates it: a key that was split and never evaluated would be a part of a graph.
    high, low = cast("list[int]", key.tolist())
    mx.random.seed(next(_SEEDS))
    try:
        yield
    finally:
        # MLX makes a state of the two halves of a seed; nothing else sets one.
        mx.random.seed(high << 32 | low)
