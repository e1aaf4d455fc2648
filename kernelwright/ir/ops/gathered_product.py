"""Products with matrices that are chosen by index, as a mixture of experts has them."""

from collections.abc import Callable

import numpy as np

from kernelwright.ir.ops.op import Array


def stacked(x: Array) -> Array:
    """Return all matrices of an array along one axis."""
    return x.reshape(-1, *x.shape[-2:])


def gathered_product(
    x: Array, left: Array, right: Array, matrix: Callable[[int], Array], columns: int
) -> Array:
    """Multiply the matrices of `x` at `left` by those at `right`, each of which is made once.

    Few of many experts are chosen, and one by many rows: neither all of them nor a copy for
    each row need be made.
    """
    lefts, rights = np.broadcast_arrays(left.astype(np.int64), right.astype(np.int64))
    matrices = stacked(x)
    made = np.zeros((*lefts.shape, x.shape[-2], columns), np.float64)
    for chosen in np.unique(rights):
        is_chosen = rights == chosen
        rows = matrices[lefts[is_chosen]]
        product = rows.reshape(-1, x.shape[-1]) @ matrix(int(chosen))
        made[is_chosen] = product.reshape(*rows.shape[:-1], columns)
    return made
