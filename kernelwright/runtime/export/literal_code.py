"""Prints dtypes, numbers and small constants as Python over MLX."""

import math
from dataclasses import dataclass

import numpy as np

from kernelwright.ir.graph import Constant, TensorType
from kernelwright.ir.graph.dtype import Dtype

ATOM = 10
UNARY = 8
"""How tightly a name and a sign bind, in Python's own order."""


@dataclass(frozen=True)
class Expression:
    """A piece of Python and how tightly its outermost operator binds."""

    text: str
    precedence: int = ATOM

    def inside(self, precedence: int) -> str:
        """Return the text as an operand of an operator."""
        return self.text if self.precedence > precedence else f"({self.text})"


def dtype_source(dtype: Dtype) -> str:
    """Return MLX's name of a dtype as Python, such as `mx.bfloat16`."""
    return f"mx.{'bool_' if dtype is Dtype.BOOL else dtype.value}"


def type_source(type_: TensorType, integers: range | None = None) -> str:
    """Return a shape and dtype as Python, such as `((64, 1024), mx.int32, range(0, 16))`."""
    taken = "" if integers is None else f", {integers!r}"
    return f"({type_.shape!r}, {dtype_source(type_.dtype)}{taken})"


def literal(value: object) -> str:
    """Return an attribute of a node as Python."""
    if isinstance(value, Dtype):
        return dtype_source(value)
    if isinstance(value, float):
        return _float(value)
    return repr(value)


def constant_source(constant: Constant) -> Expression:
    """Return a constant as an array of MLX."""
    dtype = dtype_source(constant.type.dtype)
    if constant.type.shape == ():
        return Expression(f"mx.array({number_source(constant).text}, {dtype})")
    values = constant.array.astype(_wide(constant.type.dtype)).tolist()
    return Expression(f"mx.array({values!r}, {dtype})")


def number_source(constant: Constant) -> Expression:
    """Return a constant of one element as a number."""
    value = constant.array.astype(_wide(constant.type.dtype)).reshape(-1)[0].item()
    text = repr(value)
    if isinstance(value, float):
        text = _shortest(value, constant.type.dtype) if math.isfinite(value) else _float(value)
    return Expression(text, UNARY if text.startswith("-") else ATOM)


def _shortest(value: float, dtype: Dtype) -> str:
    """Return the shortest decimal that MLX reads back as the same value of the dtype."""
    # MLX takes a Python float to float32 first, then to a narrower dtype.
    first = np.float64 if dtype is Dtype.FLOAT64 else np.float32
    with np.errstate(over="ignore"):
        for digits in range(1, 17):
            text = repr(float(f"{value:.{digits}g}"))
            read = np.array(float(text)).astype(first).astype(dtype.numpy)
            if read.astype(np.float64).item() == value:
                return text
    return repr(value)


def _wide(dtype: Dtype) -> str:
    if dtype.is_float:
        return "float64"
    return "complex128" if dtype is Dtype.COMPLEX64 else dtype.value


def _float(value: float) -> str:
    if math.isnan(value):
        return "mx.nan"
    if math.isinf(value):
        return "mx.inf" if value > 0 else "-mx.inf"
    return repr(value)
