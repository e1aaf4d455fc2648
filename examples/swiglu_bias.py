"""SwiGLU with biases, between the two halves of a gated feed-forward layer."""

import mlx.core as mx
import mlx.nn as nn


def swiglu_bias(gate, up, gate_bias, up_bias):
    return nn.silu(gate + gate_bias) * (up + up_bias)


def example_inputs():
    hidden = mx.zeros((64, 1024), mx.bfloat16)
    bias = mx.zeros((1024,), mx.bfloat16)
    return hidden, hidden, bias, bias
