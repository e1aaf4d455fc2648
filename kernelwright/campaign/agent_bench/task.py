"""Tasks of the yardstick for models and prompts: MLX code in four levels, registered by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import mlx.core as mx

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.spec.subject import Subject
from kernelwright.ir.graph import TensorType
from kernelwright.ir.trace.replay import to_mlx_dtype

Function = Callable[..., mx.array | tuple[mx.array, ...]]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class BenchTask:
    """A function to make faster, at one choice of inputs."""

    name: str
    level: Level
    function: Function
    inputs: tuple[TensorType, ...]

    @property
    def subject(self) -> Subject:
        """The task as a search takes it."""
        arrays = tuple(mx.zeros(t.shape, to_mlx_dtype(t.dtype)) for t in self.inputs)
        return Subject(self.name, self.function, arrays, {}, f"bench:{self.level.value}")


_TASKS: dict[str, BenchTask] = {}


def bench_task(level: Level, *inputs: str) -> Callable[[F], F]:
    """Register a function under its name; inputs are types such as `f32[64,1024]`."""

    def register(function: F) -> F:
        types = tuple(TensorType.parse(text) for text in inputs)
        assert function.__name__ not in _TASKS, f"two tasks are called {function.__name__}"
        _TASKS[function.__name__] = BenchTask(function.__name__, level, function, types)
        return function

    return register


def registered() -> tuple[BenchTask, ...]:
    """Return what the imported modules have registered, in order."""
    return tuple(_TASKS.values())
