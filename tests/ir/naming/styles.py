"""Code in the styles in which people write it."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

import functools

import mlx.core as mx
import mlx.nn as nn


def turned(x: mx.array) -> mx.array:
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    return mx.tanh(low) * high + mx.sin(low) * mx.exp(high)


class Gate(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, size, bias=False)
        self.down = nn.Linear(size, size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down(nn.silu(self.gate(x)) * x)


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(size)
        self.mlp = Gate(size)

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.mlp(self.norm(x)) * 0.5


class Model(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = [Layer(size) for _ in range(2)]

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        return x


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorated
def swish(x: mx.array) -> mx.array:
    return x * mx.sigmoid(1.7 * x)


@decorated
def branches(x: mx.array, w: mx.array) -> mx.array:
    parts = [swish(part) @ w for part in (x + 1, x @ w)]
    first, second = parts

    def closing(value: mx.array) -> mx.array:
        return mx.tanh(value) * value

    return closing(first) @ closing(second)


class Scaler:
    def __init__(self, w: mx.array) -> None:
        self.w = w

    def scaled(self, x: mx.array) -> mx.array:
        return mx.exp(x) * 2 + 1

    def run(self, x: mx.array) -> dict[str, mx.array]:
        pair = {"left": self.scaled(x) @ self.w, "right": mx.tanh(x) * x}
        return {**pair, "sum": pair["left"] @ (mx.sin(pair["right"]) + 1)}
