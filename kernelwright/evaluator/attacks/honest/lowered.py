"""Kernels that the lowering makes, in many schedules, dtypes and shapes."""

from collections.abc import Iterator
from functools import cache, partial

import mlx.core as mx

from kernelwright.evaluator.attacks.honest.kernel import HonestKernel
from kernelwright.evaluator.attacks.reference import FUNCTIONS, Function
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules

_DEVICE = DeviceInfo(name="simulator", chip="any", runtime="any", measures_time=False)
_DTYPES = (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
_WIDTHS = (7, 96, 257)
_ROWS = 3
_SCHEDULES = 3
"""Schedules of each task: the first guess, and others spread over the space."""


def gelu_bias(x: mx.array, b: mx.array) -> mx.array:
    """Add a bias and apply the tanh form of GELU."""
    v = x + b
    return 0.5 * v * (1 + mx.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


def log_softmax(x: mx.array) -> mx.array:
    """Logarithm of the softmax of rows."""
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


_FAMILIES: dict[str, tuple[Function, int, int]] = {
    "affine": (FUNCTIONS["affine"], 1, 2),
    "swiglu": (FUNCTIONS["swiglu"], 2, 0),
    "gelu_bias": (gelu_bias, 1, 1),
    "softmax": (FUNCTIONS["softmax"], 1, 0),
    "log_softmax": (log_softmax, 1, 0),
    "rms_norm": (FUNCTIONS["rms_norm"], 1, 1),
    "layer_norm": (FUNCTIONS["layer_norm"], 1, 2),
    "add_rms_norm": (FUNCTIONS["add_rms_norm"], 2, 1),
}
"""A function with its number of matrices and of vectors."""


@cache
def honest_kernels() -> tuple[HonestKernel, ...]:
    """Return every family at every dtype and width in some schedules."""
    return tuple(_all())


def _all() -> Iterator[HonestKernel]:
    for family in _FAMILIES:
        for dtype in _DTYPES:
            for width in _WIDTHS:
                yield from _lowered(family, dtype, width)


def _lowered(family: str, dtype: Dtype, width: int) -> Iterator[HonestKernel]:
    function, matrices, vectors = _FAMILIES[family]
    element = getattr(mx, dtype.value)
    arrays = [mx.zeros((_ROWS, width), element)] * matrices + [
        mx.zeros((width,), element)
    ] * vectors
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, *arrays))
    task = Task(graph, family)
    found = schedules(graph, _DEVICE)
    # A different stride for each task, so that together they visit the whole space.
    step = max(1, len(found) // _SCHEDULES)
    for place in dict.fromkeys((0, *range(step - 1, len(found), step))):
        schedule = found[place]
        name = f"{family} {dtype.short}[{_ROWS},{width}] {schedule}"
        yield HonestKernel(name, task, partial(lower, graph, schedule))
