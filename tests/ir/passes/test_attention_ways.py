"""One fingerprint for attention, whichever way people write it out."""

import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir

Attend = Callable[[mx.array, mx.array, mx.array], mx.array]
B, H, K, L, S, D = 2, 4, 2, 5, 7, 16
SCALE, GROUP = D**-0.5, H // K
fast = mx.fast.scaled_dot_product_attention


def soft(scores: mx.array) -> mx.array:
    return mx.softmax(scores, axis=-1)


def repeated(x: mx.array) -> mx.array:
    return mx.repeat(x, GROUP, axis=1)


def spread(x: mx.array) -> mx.array:
    wide = mx.broadcast_to(x[:, :, None], (*x.shape[:2], GROUP, *x.shape[2:]))
    return wide.reshape(B, H, *x.shape[2:])


def grouped(q: mx.array) -> mx.array:
    return q.reshape(B, K, GROUP, L, D)


def turned(x: mx.array) -> mx.array:
    return x.swapaxes(-1, -2)


def scores(q: mx.array, k: mx.array) -> mx.array:
    made: mx.array = (q * SCALE) @ turned(repeated(k))
    return made


def written(x: mx.array) -> mx.array:
    exponential = mx.exp(x - x.max(axis=-1, keepdims=True))
    made: mx.array = exponential / exponential.sum(axis=-1, keepdims=True)
    return made


def inverted(x: mx.array) -> mx.array:
    exponential = mx.exp(x - x.max(axis=-1, keepdims=True))
    return exponential * (1 / exponential.sum(axis=-1, keepdims=True))


def seen() -> mx.array:
    return mx.arange(S) <= mx.arange(S - L, S)[:, None]


def shown(x: mx.array) -> mx.array:
    return mx.where(seen(), x, -mx.inf)


def lowered(value: float) -> mx.array:
    return mx.triu(mx.full((L, S), value), k=S - L + 1)


def capped(x: mx.array) -> mx.array:
    return mx.tanh(x / 5) * 5


PLAIN: list[Attend] = [
    lambda q, k, v: fast(q, k, v, scale=SCALE),
    lambda q, k, v: soft(scores(q, k)) @ repeated(v),
    lambda q, k, v: soft(q @ turned(repeated(k) * SCALE)) @ repeated(v),
    lambda q, k, v: soft(q @ turned(repeated(k * SCALE))) @ repeated(v),
    lambda q, k, v: soft((q * D**-0.25) @ turned(repeated(k * D**-0.25))) @ repeated(v),
    lambda q, k, v: soft(q @ repeated(k).transpose(0, 1, 3, 2) * SCALE) @ repeated(v),
    lambda q, k, v: soft(q @ turned(repeated(k)) / math.sqrt(D)) @ repeated(v),
    lambda q, k, v: soft(SCALE * (q @ repeated(turned(k)))) @ repeated(v),
    lambda q, k, v: soft((q * SCALE) @ turned(spread(k))) @ spread(v),
    lambda q, k, v: soft(mx.einsum("bhqd,bhkd->bhqk", q * SCALE, repeated(k))) @ repeated(v),
    lambda q, k, v: mx.einsum("bhqk,bhkd->bhqd", soft(scores(q, k)), spread(v)),
    lambda q, k, v: mx.einsum(
        "bkgqs,bksd->bkgqd", soft(mx.einsum("bkgqd,bksd->bkgqs", grouped(q) * SCALE, k)), v
    ).reshape(B, H, L, D),
    lambda q, k, v: (soft((grouped(q) * SCALE) @ turned(k[:, :, None])) @ v[:, :, None]).reshape(
        B, H, L, D
    ),
    lambda q, k, v: (soft((q.reshape(B, K, -1, D) * SCALE) @ turned(k)) @ v).reshape(B, H, L, D),
    lambda q, k, v: written(scores(q, k)) @ repeated(v),
    lambda q, k, v: inverted(scores(q, k)) @ repeated(v),
    lambda q, k, v: mx.softmax(scores(q, k), axis=-1, precise=True) @ repeated(v),
    lambda q, k, v: soft(scores(q, k).astype(mx.float32)).astype(q.dtype) @ repeated(v),
]
CAUSAL: list[Attend] = [
    lambda q, k, v: fast(q, k, v, scale=SCALE, mask="causal"),
    lambda q, k, v: fast(q, k, v, scale=SCALE, mask=seen()),
    lambda q, k, v: fast(q, k, v, scale=SCALE, mask=mx.where(seen(), 0.0, -mx.inf)),
    lambda q, k, v: soft(shown(scores(q, k))) @ repeated(v),
    lambda q, k, v: soft(scores(q, k) + lowered(-1e9)) @ repeated(v),
    lambda q, k, v: soft(lowered(-mx.inf)[None, None] + scores(q, k)) @ repeated(v),
    lambda q, k, v: soft(mx.where(~seen(), -mx.inf, scores(q, k))) @ repeated(v),
    lambda q, k, v: soft(mx.where(lowered(1.0) == 0, scores(q, k), -1e9)) @ repeated(v),
    lambda q, k, v: (
        soft(shown((grouped(q) * SCALE) @ turned(k[:, :, None]))) @ v[:, :, None]
    ).reshape(B, H, L, D),
    lambda q, k, v: written(shown(scores(q, k))) @ repeated(v),
]
CAPPED: list[Attend] = [
    lambda q, k, v: soft(shown(capped(scores(q, k)))) @ repeated(v),
    lambda q, k, v: soft(shown(5 * mx.tanh(q @ turned(repeated(k)) * SCALE / 5))) @ repeated(v),
    lambda q, k, v: soft(shown(5 * mx.tanh(0.2 * scores(q, k)))) @ repeated(v),
    lambda q, k, v: soft(shown(5 * mx.tanh(q @ turned(repeated(k)) * (SCALE / 5)))) @ repeated(v),
    lambda q, k, v: soft(capped(scores(q, k)) + lowered(-mx.inf)) @ repeated(v),
]
HEADS_INSIDE: list[Attend] = [
    lambda q, k, v: (
        fast(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), scale=SCALE)
        .transpose(0, 2, 1, 3)
        .reshape(B, L, -1)
    ),
    lambda q, k, v: mx.einsum(
        "bhqk,bkhd->bqhd",
        soft(mx.einsum("bqhd,bkhd->bhqk", q * SCALE, mx.repeat(k, GROUP, axis=2))),
        mx.repeat(v, GROUP, axis=2),
    ).reshape(B, L, -1),
    lambda q, k, v: (
        (
            soft(q.swapaxes(1, 2) @ repeated(k.transpose(0, 2, 3, 1)) * SCALE)
            @ repeated(v.swapaxes(1, 2))
        )
        .swapaxes(1, 2)
        .reshape(B, L, -1)
    ),
]
SINGLE: list[Attend] = [
    lambda q, k, v: fast(q[None], k[None], v[None], scale=SCALE).squeeze(0),
    lambda q, k, v: soft((q * SCALE) @ turned(k)) @ v,
    lambda q, k, v: mx.einsum("hqk,hkd->hqd", soft(mx.einsum("hqd,hkd->hqk", q, k) / 4), v),
]
USUAL = ((B, H, L, D), (B, K, S, D), (B, K, S, D))
WAYS: dict[str, tuple[list[Attend], tuple[tuple[int, ...], ...]]] = {
    "plain": (PLAIN, USUAL),
    "causal": (CAUSAL, USUAL),
    "capped": (CAPPED, USUAL),
    "heads inside": (HEADS_INSIDE, ((B, L, H, D), (B, S, K, D), (B, S, K, D))),
    "no batch": (SINGLE, ((H, L, D), (H, S, D), (H, S, D))),
}


@pytest.mark.parametrize("name", WAYS)
def test_all_ways_are_one_task_with_one_meaning(name: str) -> None:
    ways, shapes = WAYS[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in shapes]
    expected = np.array(ways[0](*map(mx.array, arrays)))
    fingerprints = {}
    for place, way in enumerate(ways):
        graph = ir.canonicalize(ir.capture(way, *map(mx.array, arrays)))
        task = ir.standardize(ir.gather_attention(graph))
        fingerprints[place] = task.fingerprint
        (exact,) = ir.reference(task, arrays)
        np.testing.assert_allclose(exact, expected, rtol=1e-4, atol=1e-5)
    assert set(fingerprints.values()) == {fingerprints[0]}, fingerprints


UNLIKE: dict[str, Attend] = {
    "heads in another order": lambda q, k, v: (
        soft(q @ turned(mx.tile(k, (1, GROUP, 1, 1))) * SCALE) @ mx.tile(v, (1, GROUP, 1, 1))
    ),
    "another scale": lambda q, k, v: soft(q @ turned(repeated(k)) * 0.2) @ repeated(v),
    "a mask below the scale": lambda q, k, v: (
        soft((q @ turned(repeated(k)) + lowered(-mx.inf)) * SCALE) @ repeated(v)
    ),
    "a cap above the mask": lambda q, k, v: soft(capped(shown(scores(q, k)))) @ repeated(v),
    "softmax over queries": lambda q, k, v: mx.softmax(scores(q, k), axis=-2) @ repeated(v),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_means_something_else_stays_apart(name: str) -> None:
    way = UNLIKE[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in USUAL]
    known = {
        ir.standardize(
            ir.gather_attention(ir.canonicalize(ir.capture(w, *map(mx.array, arrays))))
        ).fingerprint
        for w in (PLAIN[0], CAUSAL[0], CAPPED[0])
    }
    task = ir.gather_attention(ir.canonicalize(ir.capture(way, *map(mx.array, arrays))))
    assert ir.standardize(task).fingerprint not in known
    (exact,) = ir.reference(task, arrays)
    expected = np.array(way(*map(mx.array, arrays)))
    np.testing.assert_allclose(exact, expected, rtol=1e-4, atol=1e-5)
