"""Programs run by MLX on a GPU, with poisoned and padded outputs."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import mlx.core as mx
import numpy as np

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import to_mlx, to_numpy
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array, RunResult
from kernelwright.metal.diagnostic import CompileError, LaunchError
from kernelwright.metal.kernel import BoundProgram, Kernel

_LARGEST_FILL = 127
"""What every dtype of numbers holds: the fill where a NaN cannot be, in integers."""


class CompiledLaunch(Protocol):
    """One kernel of a program, ready to join MLX's graph."""

    @property
    def kernel(self) -> Kernel:
        """Return what was compiled."""

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Add the launch to MLX's graph, with outputs of the given types.

        An output's type may be longer than the program's, so that its end is a canary.
        """

    def load(self, arrays: Sequence[mx.array], types: Sequence[TensorType]) -> list[mx.array]:
        """Run once on arrays and return what it made, so that later launches cost the host less."""

    def error(self, error: Exception) -> Exception:
        """Translate what evaluating the graph raised: a CompileError or a LaunchError."""


@dataclass(frozen=True)
class _Step:
    """A launch with the names that it reads and writes."""

    launch: CompiledLaunch
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    types: tuple[TensorType, ...]


@dataclass(frozen=True)
class MlxExecutable:
    """A compiled program; `graph` adds it to a computation, `run` checks what it does."""

    program: BoundProgram
    launches: tuple[CompiledLaunch, ...]

    @cached_property
    def _steps(self) -> tuple[_Step, ...]:
        return tuple(
            _Step(launch, launch.kernel.inputs, launch.kernel.outputs, self._types(launch))
            for launch in self.launches
        )

    def _types(self, launch: CompiledLaunch) -> tuple[TensorType, ...]:
        return tuple(self.program.type_of(name) for name in launch.kernel.outputs)

    def graph(self, inputs: Sequence[mx.array], *, padding_bytes: int = 0) -> list[mx.array]:
        """Return the program's outputs as unevaluated arrays, for timing and for use.

        Under `mx.compile` the launches are recorded once: a call then costs little on the host.
        With `padding_bytes` outputs lie as `run` has them, in front of a canary, so that a kernel
        that is timed finds nothing that tells it from one that is checked.
        """
        names = (t.name for t in self.program.program.inputs)
        arrays = dict(zip(names, inputs, strict=True))
        for step in self._steps:
            read = [arrays[name] for name in step.reads]
            types = [_padded(t, padding_bytes) for t in step.types] if padding_bytes else step.types
            made = step.launch.call(read, types, step.launch.kernel.init_value)
            if padding_bytes:
                made = [_unpadded(a, t) for a, t in zip(made, step.types, strict=True)]
            arrays.update(zip(step.writes, made, strict=True))
        return [arrays[t.name] for t in self.program.program.outputs]

    def load(self) -> None:
        """Run every launch once on zeros, so that MLX has all of them ready.

        Raises:
            LaunchError: one did not run.
            CompileError: one does not compile, where MLX does that at the first launch.
        """
        inputs = self.program.program.inputs
        arrays = {t.name: _zeros(self.program.type_of(t.name)) for t in inputs}
        for step in self._steps:
            try:
                made = step.launch.load([arrays[name] for name in step.reads], step.types)
            except (RuntimeError, ValueError) as e:
                raise step.launch.error(e) from e
            arrays.update(zip(step.writes, made, strict=True))

    def buffers(self, padding_bytes: int) -> list[TensorType]:
        """Return the types of all arrays that a run allocates, in front of a canary."""
        return [_padded(t, padding_bytes) for step in self._steps for t in step.types]

    def run(self, inputs: Sequence[Array], options: RunOptions) -> RunResult:
        """Run on copies of the inputs; MLX places canaries after each output only."""
        given = {
            tensor.name: (to_mlx(array), array)
            for tensor, array in zip(self.program.program.inputs, inputs, strict=True)
        }
        arrays = {name: copy for name, (copy, _) in given.items()}
        intact: dict[str, bool] = {}
        started = time.perf_counter()
        for launch in self.launches:
            self._step(launch, arrays, intact, options)
        elapsed_s = time.perf_counter() - started
        outputs = self.program.program.outputs
        return RunResult(
            outputs=tuple(to_numpy(arrays[t.name]) for t in outputs),
            canaries_intact=tuple(intact[t.name] for t in outputs),
            inputs_intact=all(_same_bytes(to_numpy(copy), array) for copy, array in given.values()),
            elapsed_s=elapsed_s,
        )

    def _step(
        self,
        launch: CompiledLaunch,
        arrays: dict[str, mx.array],
        intact: dict[str, bool],
        options: RunOptions,
    ) -> None:
        kernel = launch.kernel
        types = self._types(launch)
        padded = [_padded(t, options.padding_bytes) for t in types]
        fill = _poison(options.poison, types) if kernel.init_value is None else kernel.init_value
        try:
            made = launch.call([arrays[name] for name in kernel.inputs], padded, fill)
            mx.eval(made)
        except (RuntimeError, ValueError) as e:
            raise launch.error(e) from e
        for name, type_, array in zip(kernel.outputs, types, made, strict=True):
            flat = to_numpy(array)
            intact[name] = _is_filled(flat[type_.size :], fill)
            arrays[name] = _unpadded(array, type_)


def launch_error(kernel: Kernel, error: Exception) -> LaunchError | CompileError:
    """Name the kernel that could not run."""
    return LaunchError(f"kernel {kernel.name} did not run: {error}")


def _padded(type_: TensorType, padding_bytes: int) -> TensorType:
    padding = -(-padding_bytes // type_.dtype.itemsize)
    return TensorType((type_.size + padding,), type_.dtype)


def _unpadded(array: mx.array, type_: TensorType) -> mx.array:
    """Return what lies in front of the canary, without a copy."""
    return array[: type_.size].reshape(type_.shape)


def poisoned(types: Sequence[TensorType], pattern: int = 0xFF) -> list[mx.array]:
    """Return arrays that hold the poison of a checked run; freed, they lend it to what follows.

    MLX's allocator hands the buffer of a freed array to the next one of its size: what a timed
    launch finds in its outputs is then this, and never a right answer that somebody left.
    """
    return [mx.full(t.shape, _poison(pattern, [t]), dtype=getattr(mx, _mlx_name(t))) for t in types]


def _zeros(type_: TensorType) -> mx.array:
    return mx.zeros(type_.shape, getattr(mx, _mlx_name(type_)))


def _mlx_name(type_: TensorType) -> str:
    return "bool_" if type_.dtype is Dtype.BOOL else type_.dtype.value


def _poison(pattern: int, types: Sequence[TensorType]) -> float:
    floats = all(t.dtype.is_float for t in types)
    return math.nan if floats and pattern == 0xFF else float(min(pattern, _LARGEST_FILL))


def _is_filled(canary: Array, fill: float) -> bool:
    """Compare by value: which of a dtype's NaNs stands for NaN is the backend's choice."""
    expected = np.full(canary.shape, fill).astype(canary.dtype)
    return bool(
        np.array_equal(canary.astype(np.float64), expected.astype(np.float64), equal_nan=True)
    )


def _same_bytes(a: Array, b: Array) -> bool:
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return a.shape == b.shape and np.array_equal(one, other)
