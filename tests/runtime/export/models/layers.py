"""Modules with parameters, their methods, and functions that read what they hold."""

# mypy: ignore-errors

import mlx.core as mx
import mlx.nn as nn

import kernelwright


class Block(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.norm = nn.RMSNorm(size, eps=eps)
        self.down = nn.Linear(size, size, bias=False)
        self._scale = mx.array(0.5)

    def __call__(self, x):
        return x + mx.tanh(self.down(self.norm(x))) * self._scale

    def gate(self, x, *, power=2):
        return nn.sigmoid(self.norm(x)) ** power * x


block = Block(16)


@kernelwright.example("f32[6,16]", "f32[6,16]")
def mse(predicted, target):
    return ((predicted - target) ** 2).mean()


@kernelwright.example("f32[6,16]")
def chosen(x):
    best = mx.argmax(x, axis=-1)
    return best, mx.max(x, axis=-1) - mx.mean(x, axis=-1)


def example_inputs():
    return {
        "block": mx.zeros((6, 16)),
    }
