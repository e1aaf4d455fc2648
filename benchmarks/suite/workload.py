"""One workload: MLX code, shapes of a real model, and inputs made on the device."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from kernelwright import catalog
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Function = Callable[..., mx.array | tuple[mx.array, ...]]
_BOUND = re.compile(r"(?P<type>[^<]+)(?:<(?P<below>\d+))?")


@dataclass(frozen=True)
class Workload:
    """`inputs` are types such as `T[2048,4096]`; `i32[2048]<32000` draws integers below 32000.

    Floats with such a bound are positive.
    """

    name: str
    group: str
    function: Function
    inputs: tuple[str, ...]
    model: str
    """Where the shapes come from."""
    is_memory_bound: bool = True
    dtypes: tuple[Dtype, ...] = (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT32)

    def types(self, dtype: Dtype) -> tuple[TensorType, ...]:
        """Return the inputs' types at one floating dtype."""
        return tuple(type_ for type_, _ in self._parsed(dtype))

    def make_inputs(self, dtype: Dtype, seed: int) -> list[mx.array]:
        """Draw fresh inputs on the default device."""
        keys = mx.random.split(mx.random.key(seed), max(len(self.inputs), 2))
        return [
            _draw(type_, below, key)
            for (type_, below), key in zip(self._parsed(dtype), keys, strict=False)
        ]

    def _parsed(self, dtype: Dtype) -> list[tuple[TensorType, int | None]]:
        parsed = []
        for text in self.inputs:
            match = _BOUND.fullmatch(text)
            assert match is not None, f"{self.name}: {text!r} is no input"
            type_ = TensorType.parse(match["type"].replace("T[", f"{dtype.short}["))
            parsed.append((type_, int(match["below"]) if match["below"] else None))
        return parsed


def from_catalog(name: str, *inputs: str, model: str, is_memory_bound: bool = True) -> Workload:
    """Take a catalog task to the shapes of a model."""
    entry = catalog.find(name)
    return Workload(name, entry.group, entry.function, inputs, model, is_memory_bound)


def _draw(type_: TensorType, below: int | None, key: mx.array) -> mx.array:
    dtype = type_.dtype
    mlx_dtype: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    if dtype is Dtype.BOOL:
        return mx.random.bernoulli(0.7, type_.shape, key=key)
    if dtype is Dtype.UINT32 and below is None:
        halves = mx.random.randint(0, 1 << 16, (2, *type_.shape), dtype=mx.uint32, key=key)
        return halves[0] << 16 | halves[1]
    if dtype.is_integer:
        high = below or 1 << min(7, 8 * dtype.itemsize - 1)
        return mx.random.randint(0, high, type_.shape, dtype=mlx_dtype, key=key)
    if below is not None:
        return mx.random.uniform(0.1, below, type_.shape, key=key).astype(mlx_dtype)
    # Small enough that products of two keep within half precision's exponentials.
    return mx.random.normal(type_.shape, scale=0.5, key=key).astype(mlx_dtype)


def minimal_bytes(inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> int:
    """Bytes that must move at least: every input read once, every output written once."""
    return sum(t.nbytes for t in (*inputs, *outputs))
