"""Ops for which MLX has no single call; the text of those that an export needs is part of it.

It imports MLX alone.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import mlx.core as mx


def _window_places(shape: tuple, axes: tuple, sizes: tuple, indices: tuple) -> tuple[mx.array, ...]:
    """Return an index array for each axis; together they pick windows that begin at `indices`."""
    starts = mx.broadcast_arrays(*indices) if indices else []
    lead = starts[0].shape if starts else ()
    places = []
    for axis, size in enumerate(sizes):
        place = mx.arange(size).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        if axis in axes:
            start = starts[axes.index(axis)].astype(mx.int64)
            start = mx.where(start < 0, start + shape[axis], start)
            place = place + start.reshape(*lead, *[1] * len(shape))
        places.append(mx.broadcast_to(place, (*lead, *sizes)))
    return tuple(places)


def _gather_windows(x: mx.array, axes: tuple, sizes: tuple, *indices: mx.array) -> mx.array:
    """Return the windows of `sizes` that begin at `indices` along `axes`."""
    return x[_window_places(x.shape, axes, sizes, indices)]


def _scatter(x: mx.array, axes: tuple, how: str, *rest: mx.array) -> mx.array:
    """Return `x` with windows written, or combined, where `rest` but its last says."""
    *indices, updates = rest
    sizes = updates.shape[updates.ndim - x.ndim :]
    return _update(x, _window_places(x.shape, axes, sizes, indices), updates, how)


def _add_along_axis(x: mx.array, index: mx.array, updates: mx.array, axis: int) -> mx.array:
    """Return `x` with updates added where `index` says along an axis."""
    places = []
    for a, size in enumerate(index.shape):
        along = [-1 if b == a else 1 for b in range(index.ndim)]
        place = index if a == axis else mx.arange(size).reshape(along)
        places.append(mx.broadcast_to(place, index.shape))
    return x.at[tuple(places)].add(mx.broadcast_to(updates, index.shape))


def _masked_scatter(x: mx.array, mask: mx.array, source: mx.array) -> mx.array:
    """Return `x` with the elements of `source`, in order, where the mask is set, row by row."""
    rows = mx.broadcast_to(mask, x.shape).reshape(x.shape[0], -1)
    place = mx.maximum(mx.cumsum(rows.astype(mx.int32), axis=1) - 1, 0)
    values = mx.take_along_axis(source.reshape(x.shape[0], -1), place, axis=1)
    return mx.where(rows, values, x.reshape(x.shape[0], -1)).reshape(x.shape)


def _update(x: mx.array, places: tuple, updates: mx.array, how: str) -> mx.array:
    """Return a copy of `x` with places replaced, or combined with what is there."""
    if how != "set":
        return getattr(x.at[places], how)(updates)
    made = mx.array(x)
    made[places] = updates
    return made
