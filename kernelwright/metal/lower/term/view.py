"""Where a view's element comes from: output coordinates to input coordinates."""

from collections.abc import Callable, Sequence

from kernelwright.errors import UnsupportedError
from kernelwright.ir.ops import Call
from kernelwright.metal.kernel_ir.index import Index, flatten, unflatten

Coordinates = tuple[Index, ...]


def source_coordinates(op: str, call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    """Return the input coordinates of one element of a view's output number `output`.

    Raises:
        UnsupportedError: the view has no index map here.
    """
    if op not in _MAPS:
        raise UnsupportedError(f"the view {op} is not lowered yet.")
    return _MAPS[op](call, output, coordinates)


def _same(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    return coordinates


def _broadcast(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    shape = call.inputs[0].shape
    trailing = coordinates[len(coordinates) - len(shape) :]
    return tuple(Index() if n == 1 else c for c, n in zip(trailing, shape, strict=True))


def _reshape(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    return reshaped(coordinates, call.outputs[0].shape, call.inputs[0].shape)


def reshaped(coordinates: Coordinates, shape: Sequence[int], wanted: Sequence[int]) -> Coordinates:
    """Return the coordinates in `wanted` of the element that stands at `coordinates` in `shape`."""
    return unflatten(flatten(coordinates, shape), wanted)


def _transpose(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    axes = call.integers("axes")
    return tuple(coordinates[axes.index(axis)] for axis in range(len(axes)))


def _slice(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    places = zip(call.integers("start"), call.integers("strides"), coordinates, strict=True)
    return tuple(c * stride + start for start, stride, c in places)


def _split(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    axis = call.integer("axis")
    start = (0, *call.integers("indices"))[output]
    return tuple(c + start if i == axis else c for i, c in enumerate(coordinates))


def _as_strided(call: Call, output: int, coordinates: Coordinates) -> Coordinates:
    offset = Index.of(call.integer("offset"))
    for coordinate, stride in zip(coordinates, call.integers("strides"), strict=True):
        offset = offset + coordinate * stride
    return unflatten(offset, call.inputs[0].shape)


_MAPS: dict[str, Callable[[Call, int, Coordinates], Coordinates]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "flatten": _reshape,
    "unflatten": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "split": _split,
    "as_strided": _as_strided,
    "full": _same,
    "copy": _same,
    "contiguous": _same,
    "stop_gradient": _same,
}
