"""Slices and concatenations of the last axis have one form each."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir

X = (3, 8)
Function = Callable[[mx.array], mx.array]
WAYS: dict[str, tuple[Function, Function]] = {
    "a slice of a slice": (lambda x: x[:, 2:][:, 1:4], lambda x: x[:, 3:6]),
    "every second of every second": (lambda x: x[:, ::2][:, 1::2], lambda x: x[:, 2::4]),
    "rows of a cut axis": (lambda x: x.reshape(3, 2, 4)[:, 1], lambda x: x[:, 4:]),
    "columns of a cut axis": (lambda x: x.reshape(3, 4, 2)[..., 1], lambda x: x[:, 1::2]),
    "joined in two steps": (
        lambda x: mx.concatenate([mx.concatenate([x, 2 * x], axis=-1), x * x], axis=-1),
        lambda x: mx.concatenate([x, 2 * x, x * x], axis=-1),
    ),
    "stacked and laid side by side": (
        lambda x: mx.stack([x, 2 * x], axis=1).reshape(3, 16),
        lambda x: mx.concatenate([x, 2 * x], axis=-1),
    ),
}


def _task(function: Function) -> ir.Graph:
    with mx.stream(mx.cpu):
        return ir.standardize(ir.canonicalize(ir.capture(function, mx.zeros(X))))


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_cut_and_join_are_one(name: str) -> None:
    one, other = WAYS[name]
    assert _task(one).fingerprint == _task(other).fingerprint
    values = np.arange(24.0).reshape(X)
    (found,) = ir.reference(_task(one), [values])
    assert np.array_equal(found, np.array(other(mx.array(values, mx.float32))))


def test_slices_that_go_back_stay_as_they_are() -> None:
    ops = [node.op for node in _task(lambda x: x[:, ::-1][:, 1:]).nodes]
    assert ops == ["slice", "slice"]
