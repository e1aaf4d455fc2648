"""What a worker still has of the inputs that it was sent, so that they are sent once."""

from collections.abc import Sequence
from typing import Literal

from kernelwright.metal.device.executable import Array

Shelf = Literal["latest", "largest"]
"""Where a worker keeps the inputs of a run: those of the largest case run again and again."""
_LARGEST_SHARE = 1 / 8
"""Of a worker's memory: beside inputs that stay it needs room for a candidate's own arrays."""


class HeldInputs:
    """The inputs on each of a worker's shelves, as whoever asks it knows them."""

    def __init__(self, memory_bytes: int) -> None:
        """Keep books for a worker with so much memory."""
        self._most = _LARGEST_SHARE * memory_bytes
        self._on: dict[Shelf, Sequence[Array]] = {}

    def shelf_with(self, inputs: Sequence[Array]) -> Shelf | None:
        """Return where these very inputs are; None where they have to be sent."""
        return next((shelf for shelf, held in self._on.items() if held is inputs), None)

    def shelf_for(self, inputs: Sequence[Array]) -> Shelf:
        """Return where inputs go that are sent: what is larger than the largest replaces it."""
        size, largest = _bytes(inputs), self._on.get("largest")
        is_larger = largest is None or size > _bytes(largest)
        return "largest" if is_larger and size <= self._most else "latest"

    def put(self, shelf: Shelf, inputs: Sequence[Array]) -> None:
        """Note what a worker has by now."""
        self._on[shelf] = inputs

    def forget(self, shelf: Shelf | None = None) -> None:
        """Note that nobody knows what is on a shelf, or on any."""
        if shelf is None:
            self._on.clear()
        else:
            self._on.pop(shelf, None)


def _bytes(inputs: Sequence[Array]) -> int:
    return sum(array.nbytes for array in inputs)
