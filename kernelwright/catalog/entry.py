"""A ready task: MLX code in a few lines, with inputs at any floating dtype."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Function = Callable[..., mx.array | tuple[mx.array, ...]]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Entry:
    """One catalog task; `inputs` are types such as `T[64,1024]`, `T` being the dtype asked for."""

    name: str
    group: str
    summary: str
    function: Function
    inputs: tuple[str, ...]

    def types(self, dtype: Dtype) -> tuple[TensorType, ...]:
        """Return the inputs' types at one floating dtype."""
        texts = (text.replace("T[", f"{dtype.short}[") for text in self.inputs)
        return tuple(map(TensorType.parse, texts))


_ENTRIES: dict[str, Entry] = {}


def entry(*inputs: str) -> Callable[[F], F]:
    """Put a function into the catalog, under its own name and its module's group."""

    def register(function: F) -> F:
        name = function.__name__
        assert name not in _ENTRIES, f"two catalog tasks are called {name}"
        summary = (function.__doc__ or "").strip().split("\n")[0].rstrip(".")
        group = function.__module__.rpartition(".")[2]
        _ENTRIES[name] = Entry(name, group, summary, function, inputs)
        return function

    return register


def registered() -> tuple[Entry, ...]:
    """Return what the imported modules have registered, in order."""
    return tuple(_ENTRIES.values())
