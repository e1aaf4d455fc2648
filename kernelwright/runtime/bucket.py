"""Sizes that vary, such as a sequence's length, padded to the next of a few and cut back.

A kernel is made for one shape. Whoever lists the sizes to pad to lets a few kernels serve every
length; whether padding changes what a function computes is found out by comparing, not assumed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.runtime.call import flatten, rebuild

_TOLERANCE = 1e-4
_HALF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Buckets:
    """Which axis of which arguments is padded with zeros, and to which sizes."""

    sizes: tuple[int, ...]
    axis: int = 0
    arguments: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, sizes: Sequence[int], axis: int, arguments: Sequence[int]) -> "Buckets":
        """Check and order what a user wrote.

        Raises:
            InputError: there are no sizes, or one is below 1.
        """
        if not sizes or min(sizes) < 1 or not arguments:
            raise InputError(
                f"expected bucket sizes of at least 1 and the places of the arguments to pad, "
                f"found {list(sizes)!r} and {list(arguments)!r}."
            )
        return cls(tuple(sorted(set(sizes))), axis, tuple(arguments))

    def extent(self, args: Sequence[object]) -> int | None:
        """Return the size that the arguments to pad share; None where they do not."""
        found = set()
        for place in self.arguments:
            array = args[place] if place < len(args) else None
            if not isinstance(array, mx.array) or not -array.ndim <= self.axis < array.ndim:
                return None
            found.add(array.shape[self.axis])
        return found.pop() if len(found) == 1 else None

    def size_for(self, extent: int) -> int | None:
        """Return the next size; None when it is one already or larger than all."""
        larger = [size for size in self.sizes if size >= extent]
        return larger[0] if larger and larger[0] != extent else None

    def padded(self, args: Sequence[object], size: int) -> tuple[object, ...]:
        """Return the arguments with zeros up to `size`."""
        return tuple(
            _padded(value, self.axis, size) if place in self.arguments else value
            for place, value in enumerate(args)
        )

    def cut(self, result: object, size: int, extent: int) -> object:
        """Cut every array of a result that is as long as the padding back to `extent`."""
        flat = flatten(result)
        assert flat is not None
        return rebuild(result, [_cut(array, self.axis, size, extent) for array in flat.arrays])


def is_harmless(buckets: Buckets, function: Callable[..., object], args: Sequence[object]) -> bool:
    """Say whether padding leaves a function's results as they are, by computing both.

    Arguments as given, and of either sign alone: zeros change a maximum of negative numbers only.
    """
    extent = buckets.extent(args)
    size = None if extent is None else buckets.size_for(extent)
    if extent is None or size is None:
        return False
    padded = through(buckets, function, size, extent)
    return all(_agree(padded(*tried), function(*tried)) for tried in _variants(args))


def _variants(args: Sequence[object]) -> Iterator[tuple[object, ...]]:
    yield tuple(args)
    for sign in (1, -1):
        yield tuple(_of_sign(value, sign) for value in args)


def _of_sign(value: object, sign: int) -> object:
    if not isinstance(value, mx.array) or not mx.issubdtype(value.dtype, mx.floating):
        return value
    drawn = mx.random.uniform(0.5, 2.0, value.shape, key=mx.random.key(0))
    return (sign * drawn).astype(value.dtype)


def _agree(found: object, expected: object) -> bool:
    one, other = flatten(found), flatten(expected)
    if one is None or other is None or one.key != other.key:
        return False
    return all(_is_close(a, b) for a, b in zip(one.arrays, other.arrays, strict=True))


def through(
    buckets: Buckets, run: Callable[..., object], size: int, extent: int
) -> Callable[..., object]:
    """Return `run` for arguments of `extent`, padded on the way in and cut on the way out."""

    def call(*args: object) -> object:
        return buckets.cut(run(*buckets.padded(args, size)), size, extent)

    return call


def _padded(value: object, axis: int, size: int) -> mx.array:
    assert isinstance(value, mx.array)
    widths = [(0, 0)] * value.ndim
    widths[axis] = (0, size - value.shape[axis])
    return mx.pad(value, widths)


def _cut(array: mx.array, axis: int, size: int, extent: int) -> mx.array:
    if not -array.ndim <= axis < array.ndim or array.shape[axis] != size:
        return array
    places = [slice(None)] * array.ndim
    places[axis] = slice(0, extent)
    return array[tuple(places)]


def _is_close(found: mx.array, expected: mx.array) -> bool:
    if not mx.issubdtype(found.dtype, mx.inexact):
        return bool(mx.array_equal(found, expected).item())
    tolerance = _TOLERANCE if found.dtype.size >= 4 else _HALF_TOLERANCE
    close = mx.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    return bool(close.item())
