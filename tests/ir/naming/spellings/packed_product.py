"""Products with packed weights as people write them."""

# mypy: ignore-errors
# ruff: noqa

import mlx.core as mx

from tests.ir.naming.spelling import spelled

X = mx.random.normal((3, 128), key=mx.random.key(0))
W = mx.random.normal((16, 128), key=mx.random.key(1))
q, sc, bi = mx.quantize(W, 64, 4)
XH = X.astype(mx.float16)
Q = "quantized_matmul"


def unpack(w, s_, b, group=64, bits=4):
    sh = mx.arange(0, 32, bits, dtype=mx.uint32)
    v = (w[..., None] >> sh) & (2**bits - 1)
    v = v.reshape(w.shape[0], -1, group).astype(s_.dtype)
    return (v * s_[..., None] + b[..., None]).reshape(w.shape[0], -1)


@spelled(Q, X, q, sc, bi)
def direct(x, w, s_, b):
    return mx.quantized_matmul(x, w, s_, b, transpose=True, group_size=64, bits=4)


@spelled(Q, X, q, sc, bi)
def deq_T(x, w, s_, b):
    return x @ mx.dequantize(w, s_, b, 64, 4).T


@spelled(Q, X, q, sc, bi)
def deq_swap(x, w, s_, b):
    return mx.matmul(x, mx.swapaxes(mx.dequantize(w, s_, b, 64, 4), 0, 1))


@spelled(Q, X, q, sc, bi)
def deq_einsum(x, w, s_, b):
    return mx.einsum("nd,od->no", x, mx.dequantize(w, s_, b, 64, 4))


@spelled(Q, X, q, sc, bi)
def deq_addmm(x, w, s_, b):
    return mx.addmm(mx.zeros((16,)), x, mx.dequantize(w, s_, b, 64, 4).T)


@spelled(Q, X, q, sc, bi)
def deq_inner(x, w, s_, b):
    return mx.inner(x, mx.dequantize(w, s_, b, 64, 4))


@spelled(Q, X, q, sc, bi)
def manual(x, w, s_, b):
    return x @ unpack(w, s_, b).T
