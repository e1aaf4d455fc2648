"""Softmax cross-entropy over a vocabulary, one loss for each token."""

import mlx.core as mx
import mlx.nn as nn


def cross_entropy(logits, targets):
    return nn.losses.cross_entropy(logits.astype(mx.float32), targets)


def example_inputs():
    return mx.zeros((64, 2000), mx.float16), mx.zeros((64,), mx.int32)
