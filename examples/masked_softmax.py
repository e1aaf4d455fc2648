"""Attention weights: scaled scores, a boolean mask, softmax."""

import math

import mlx.core as mx

import kernelwright


@kernelwright.example("f16[8,64,256]", "bool[64,256]")
def masked_softmax(scores, mask):
    scores = scores * (1 / math.sqrt(64))
    scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)
    return mx.softmax(scores, axis=-1, precise=True)
