"""How inputs lie in memory."""

from enum import StrEnum

import numpy as np

from kernelwright.metal.device.executable import Array


class Layout(StrEnum):
    """How an input lies in memory."""

    DENSE = "dense"
    STRIDED = "strided"
    """Every second element of a larger buffer."""
    BROADCAST = "broadcast"
    """The first row repeated with stride 0."""
    VARIED = "varied"
    """By turns column after column, every second element, and dense: no two inputs alike."""

    def place(self, array: Array, position: int) -> Array:
        """Return the same values in this layout, for the input at this position."""
        turn = position % 3 if self is Layout.VARIED else None
        if turn == 0:
            return array.T.copy().T
        if (self is Layout.STRIDED or turn == 1) and array.ndim:
            wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        if self is Layout.BROADCAST and array.ndim >= 2 and len(array):
            return np.broadcast_to(array[:1], array.shape)
        return array
