"""What the names of idioms mean, in float64, over the operands and parameters that they show."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kernelwright.ir import Graph, reference
from kernelwright.ir.naming.idioms import Idiom

Array = NDArray[np.float64]
Operands = Mapping[str, Array]


def _axes(idiom: Idiom) -> tuple[int, ...]:
    axes = dict(idiom.parameters)["axes"]
    assert isinstance(axes, tuple)
    return axes


def _numeric(idiom: Idiom, name: str) -> float:
    value = dict(idiom.parameters)[name]
    assert isinstance(value, int | float)
    return value


def _norm(idiom: Idiom, given: Operands, shape: tuple[int, ...]) -> Array:
    x, axes = given["x"].reshape(shape), _axes(idiom)
    if idiom.name == "rms_norm":
        spread = (x * x).mean(axis=axes, keepdims=True)
    else:
        spread = x.var(axis=axes, keepdims=True, ddof=_numeric(idiom, "ddof"))
        x = x - x.mean(axis=axes, keepdims=True)
    made = x / np.sqrt(spread + _numeric(idiom, "epsilon"))
    vector = [n if axis in axes else 1 for axis, n in enumerate(shape)]
    for role, apply in (("weight", np.multiply), ("bias", np.add)):
        if role in given:
            is_vector = given[role].size == math.prod(vector)
            made = apply(made, given[role].reshape(vector if is_vector else shape))
    return np.asarray(made)


def _cross_entropy(idiom: Idiom, given: Operands, shape: tuple[int, ...]) -> Array:
    x, (axis,) = given["x"], _axes(idiom)
    rows = np.moveaxis(x, axis, -1)
    target = given["target"].astype(int).reshape(*rows.shape[:-1], 1)
    picked = np.take_along_axis(rows, target, axis=-1)
    return np.asarray(special.logsumexp(rows, axis=-1, keepdims=True) - picked)


def _gelu_tanh(x: Array) -> Array:
    bent = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return np.asarray(0.5 * x * (1 + bent))


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "silu": lambda x: x * special.expit(x),
    "gelu": lambda x: 0.5 * x * (1 + special.erf(x * math.sqrt(0.5))),
    "gelu_tanh": _gelu_tanh,
    "gelu_fast": lambda x: x * special.expit(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "softplus": lambda x: np.logaddexp(x, 0),
}


def _selu(x: Array) -> Array:
    bent = np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    return np.asarray(1.0507009873554805 * bent)


def _huber(x: Array, delta: float) -> Array:
    return np.where(np.abs(x) <= delta, x * x / 2, delta * (np.abs(x) - delta / 2))


FURTHER: Mapping[str, Callable[[Idiom, Array], Array]] = {
    "elu": lambda i, x: np.where(x > 0, x, _numeric(i, "alpha") * np.expm1(np.minimum(x, 0))),
    "selu": lambda _, x: _selu(x),
    "celu": lambda i, x: (
        np.maximum(x, 0) + _numeric(i, "alpha") * np.expm1(np.minimum(x, 0) / _numeric(i, "alpha"))
    ),
    "mish": lambda _, x: x * np.tanh(np.logaddexp(x, 0)),
    "softsign": lambda _, x: x / (1 + np.abs(x)),
    "hard_swish": lambda _, x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_tanh": lambda _, x: np.clip(x, -1, 1),
    "log_cosh": lambda _, x: np.logaddexp(x, -x) - math.log(2),
    "huber": lambda i, x: _huber(x, _numeric(i, "delta")),
    "smooth_l1": lambda i, x: _huber(x, _numeric(i, "beta")) / _numeric(i, "beta"),
}
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "geglu_fast": "gelu_fast"}


def expected(idiom: Idiom, given: Operands, shape: tuple[int, ...]) -> Array:
    """Return what an idiom of a name computes; KeyError where the name is not known here."""
    match idiom.name:
        case "rms_norm" | "layer_norm":
            return _norm(idiom, given, shape)
        case "cross_entropy":
            return _cross_entropy(idiom, given, shape)
        case "log_likelihood":
            return -_cross_entropy(idiom, given, shape)
        case "softmax":
            return np.asarray(special.softmax(given["x"].reshape(shape), axis=_axes(idiom)))
        case "log_softmax":
            return np.asarray(special.log_softmax(given["x"].reshape(shape), axis=_axes(idiom)))
        case "logsumexp":
            return np.asarray(special.logsumexp(given["x"], axis=_axes(idiom)))
        case "variance":
            return np.asarray(given["x"].var(axis=_axes(idiom), ddof=_numeric(idiom, "ddof")))
    if idiom.name in FURTHER:
        return FURTHER[idiom.name](idiom, given["x"])
    if idiom.name == "glu":
        return np.asarray(given["x"] * special.expit(given["gate"]))
    if idiom.name in GATED:
        gate = ACTIVATIONS[GATED[idiom.name]](given["gate"])
        return _spread(given["x"], shape) * _spread(gate, shape)
    return ACTIVATIONS[idiom.name](given["x"])


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    is_whole = array.size == math.prod(shape)
    return array.reshape(shape) if is_whole else np.broadcast_to(array, shape)


def misnamed(graph: Graph, found: Sequence[Idiom], arrays: Sequence[Array]) -> list[Idiom]:
    """List the idioms that do not compute what their names say, on some arrays."""
    wrong: list[Idiom] = []
    for idiom in found:
        roles, values = zip(*idiom.operands, strict=True)
        shown = replace(graph, outputs=(idiom.output, *values))
        made, *operands = reference(shown, arrays)
        wanted = expected(idiom, dict(zip(roles, operands, strict=True)), made.shape)
        is_same = wanted.size == made.size and np.allclose(
            made.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=1e-6, equal_nan=True
        )
        wrong += [] if is_same else [idiom]
    return wrong
