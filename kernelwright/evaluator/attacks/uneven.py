"""Right programs whose work hides from a careless count: in one threadgroup, or behind a value.

Each computes the rotation of half vectors, and none is as fast as a mean, or ordinary data, says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.evaluator.attacks.reference import FUNCTIONS
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.kernel import Kernel, Program, Tensor

SHAPES = ((6, 32), (4096, 128))
"""Rows and columns: a toy, and what a model has."""
_FEW = 64
_PAIR = """\
float c = metal::precise::cos(float(a[row * {half} + i]));
float s = metal::precise::sin(float(a[row * {half} + i]));
float first = float(x[row * {cols} + i]);
float second = float(x[row * {cols} + i + {half}]);
y[row * {cols} + i] = {type}(first * c - second * s);
y[row * {cols} + i + {half}] = {type}(first * s + second * c);
"""
_EVEN = """\
uint i = thread_position_in_grid.x;
uint row = thread_position_in_grid.y;
"""
_WASTE = """\
if ({condition}) {{
  float waste = 0.0f;
  for (uint k = 0; k < {turns}; k++)
    waste += float(x[(i * 7 + row * {half} + k * 64) % {size}]);
  if (waste == 0.123f) y[row * {cols} + i] = {type}(metal::fma(-second, s, first * c));
}}
"""
_TURNS = {"an early value": "first > 6.5f", "a late row": "row == {rows} - 1"}
_ALONE = """\
if (threadgroup_position_in_grid.y != {where}) return;
uint threads = {half} * 2;
uint t = thread_position_in_threadgroup.y * {half} + thread_position_in_threadgroup.x;
for (uint k = t; k < {rows} * {half}; k += threads) {{
uint i = k % {half}, row = k / {half};
"""


@dataclass(frozen=True)
class UnevenKernel:
    """A right program that does not deserve to be promoted."""

    name: str
    task: Task
    program: Program


def even_kernels() -> Iterator[UnevenKernel]:
    """Yield the same programs without the waste, which do deserve it."""
    for rows, cols in SHAPES:
        for dtype in (Dtype.FLOAT32, Dtype.FLOAT16):
            yield _kernel("even", rows, cols, dtype, _EVEN + _PAIR)


def uneven_kernels() -> Iterator[UnevenKernel]:
    """Yield every way of hiding work, at each shape and dtype."""
    for rows, cols in SHAPES:
        for dtype in (Dtype.FLOAT32, Dtype.FLOAT16):
            for name, condition in _TURNS.items():
                text = _EVEN + _PAIR + _WASTE.replace("{condition}", condition)
                yield _kernel(name, rows, cols, dtype, text)
            # Where a single threadgroup holds all work in a moment, it may.
            alone = (("the first group", 0), ("the last group", rows // 2 - 1))
            for name, where in alone if rows > _FEW else ():
                text = _ALONE.replace("{where}", str(where)) + _PAIR + "}}\n"
                yield _kernel(name, rows, cols, dtype, text)


def _kernel(name: str, rows: int, cols: int, dtype: Dtype, text: str) -> UnevenKernel:
    half = cols // 2
    type_ = {Dtype.FLOAT32: "float", Dtype.FLOAT16: "half"}[dtype]
    source = text.format(
        rows=rows,
        cols=cols,
        half=half,
        size=rows * cols,
        type=type_,
        turns=400 if rows > _FEW else 20_000,
    )
    element = getattr(mx, dtype.value)
    with mx.stream(mx.cpu):
        arrays = (mx.zeros((rows, cols), element), mx.zeros((rows, half), element))
        graph = canonicalize(capture(FUNCTIONS["rotate"], *arrays))
    x = Tensor(name="x", dtype=dtype, shape=(rows, cols))
    a = Tensor(name="a", dtype=dtype, shape=(rows, half))
    kernel = Kernel(
        name="rotate",
        inputs=("x", "a"),
        outputs=("y",),
        source=source,
        grid=(half, rows, 1),
        threadgroup=(half, 2, 1),
    )
    outputs = (x.model_copy(update={"name": "y"}),)
    program = Program(inputs=(x, a), outputs=outputs, kernels=(kernel,))
    return UnevenKernel(f"{name} {dtype.short}[{rows},{cols}]", Task(graph, "rotate"), program)
