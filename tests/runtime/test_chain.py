"""Runs of a part in a chain wait for each other where a model's would."""

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.runtime import chain
from kernelwright.runtime.chain import _Link, chained_us


def projected(residual: mx.array, x: mx.array, w: mx.array) -> mx.array:
    return residual + x @ w.T


def convolved(bias: mx.array, state: mx.array, x: mx.array, w: mx.array) -> mx.array:
    return mx.conv1d(mx.concatenate([state, x], axis=1), w, groups=8) + bias


def test_the_input_of_a_product_is_linked_and_not_what_is_added_to_it() -> None:
    row, weights = mx.zeros((1, 1, 64)), mx.zeros((64, 64))
    link = _Link.of(ir.canonicalize(ir.capture(projected, row, row, weights)))
    assert link is not None
    assert link.place == 1


def test_what_is_read_first_is_linked_although_a_bias_is_smaller() -> None:
    arrays = (mx.zeros((8,)), mx.zeros((1, 3, 8)), mx.zeros((1, 1, 8)), mx.zeros((8, 4, 1)))
    task = ir.canonicalize(ir.capture(convolved, *arrays))
    link = _Link.of(task)
    assert link is not None
    assert task.input_types[link.place].shape in ((1, 1, 8), (1, 3, 8))


def attending(q: mx.array, k: mx.array, v: mx.array, count: mx.array) -> mx.array:
    seen = mx.arange(k.shape[2]) < count
    v = mx.where(seen[:, None], v, mx.array(0, v.dtype))
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.1, mask=seen)


def test_an_output_is_not_copied_many_times_over_to_make_a_link() -> None:
    q, k = mx.zeros((1, 4, 1, 32)), mx.zeros((1, 2, 256, 32))
    raw = ir.capture(attending, q, k, k, mx.array(3, mx.int32))
    link = _Link.of(ir.gather_attention(ir.canonicalize(raw)))
    assert link is not None
    assert (link.place, link.copies) == (0, 1)


def test_links_that_take_the_whole_chain_leave_the_time_of_a_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At no time at all any kernel would count as faster than MLX."""
    monkeypatch.setattr(chain, "_link_us", lambda link, task: 1e9)
    x = mx.zeros((8, 4))
    task = ir.canonicalize(ir.capture(lambda x: mx.exp(x).sum(axis=0), x))
    assert chained_us(task, lambda x: [mx.exp(x).sum(axis=0)], [[x]], seconds=0.0) >= 1.0
