"""The ways in which people call a function; the text of this file is part of exported tests."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx


def ways(function: Callable, arrays: Sequence[mx.array]) -> Iterator[tuple[str, Callable]]:
    """Yield ways to call a function of arrays, each with its computation."""
    function = with_arguments(function)
    yield "called", lambda: list(function(*arrays))
    places = [i for i, a in enumerate(arrays) if mx.issubdtype(a.dtype, mx.floating)]

    def total(*given: mx.array) -> mx.array:
        made = [r for r in function(*given) if mx.issubdtype(r.dtype, mx.floating)]
        return sum((r.astype(mx.float32) * weights(r)).sum() for r in made)

    if places:
        yield "mx.grad", lambda: listed(mx.grad(total, argnums=places)(*arrays))
        yield "mx.jvp", lambda: list(mx.jvp(*along(function, arrays, places[0]))[1])
    yield "mx.compile", lambda: list(mx.compile(function)(*arrays))
    if not arrays:
        return
    pairs = [mx.stack([a, a[::-1] if a.ndim else a]) for a in arrays]
    yield "mx.vmap", lambda: listed(mx.vmap(lambda *given: tuple(function(*given)))(*pairs))


def along(function: Callable, arrays: Sequence[mx.array], place: int) -> tuple:
    """Return a function of one of the arrays, and a direction to derive it in."""

    def moving(array: mx.array) -> list:
        made = function(*arrays[:place], array, *arrays[place + 1 :])
        return [r for r in made if mx.issubdtype(r.dtype, mx.floating)]

    direction = weights(arrays[place]).astype(arrays[place].dtype)
    return moving, [arrays[place]], [direction]


def with_arguments(function: Callable) -> Callable:
    """Return a function that also returns its arguments, which it may change in place."""

    def shown(*arrays: mx.array) -> list:
        given = [a.astype(a.dtype) for a in arrays]
        return [*function(*given), *given]

    return shown


def weights(array: mx.array) -> mx.array:
    """Return factors for a sum: a plain one has no gradient through a softmax."""
    return (mx.arange(array.size).astype(mx.float32) % 7 - 3).reshape(array.shape)


def listed(value: object) -> list:
    """Return several results, or the only one, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def outcome(compute: Callable[[], list]) -> list[mx.array] | str:
    """Return results, or why there are none."""
    try:
        results = compute()
        mx.eval(results)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return results
