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


def _random_bits(key: mx.array, shape: tuple, dtype: mx.Dtype) -> mx.array:
    """Return the bits that MLX draws for keys, each of which fills its part of the shape."""
    pairs = key.reshape(-1, 2)
    count = 1
    for size in shape:
        count *= size
    count //= pairs.shape[0]
    words = -(-count * dtype.size // 4)
    rows = []
    for place in range(pairs.shape[0]):
        row = mx.random.split(pairs[place], -(-words // 2)).reshape(-1)
        if words % 2:
            # MLX hashes the last counter of an odd number alone.
            half = words // 2
            row[half] = _threefry(pairs[place], half, 0)
        rows.append(row.view(dtype)[:count])
    return mx.stack(rows).reshape(shape)


def _threefry(key: mx.array, first: int, second: int) -> mx.array:
    """Hash two words: Threefry-2x32 with 20 rounds, by Salmon et al., SC 2011."""
    words = [key[0], key[1], key[0] ^ key[1] ^ mx.array(0x1BD11BDA, mx.uint32)]
    x, y = mx.array(first, mx.uint32) + words[0], mx.array(second, mx.uint32) + words[1]
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x = x + y
            left, right = mx.array(turn, mx.uint32), mx.array(32 - turn, mx.uint32)
            y = (mx.left_shift(y, left) | mx.right_shift(y, right)) ^ x
        x = x + words[(block + 1) % 3]
        y = y + words[(block + 2) % 3] + mx.array(block + 1, mx.uint32)
    return x
