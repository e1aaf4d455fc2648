"""Runs `mx.fast.metal_kernel` on the simulator, where there is no GPU that runs Metal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.ir.trace.array import to_dtype
from kernelwright.metal.device.array import to_mlx, to_numpy
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.kernel import Kernel, Program, Tensor

Launch = tuple[str, Program, tuple[TensorType, ...]]
"""A kernel's name, the program that it makes with its grid, and the types that it reads."""


@contextmanager
def simulated_kernels(
    threadgroup_bytes: int, launches: list[Launch] | None = None
) -> Iterator[None]:
    """Let kernels that are made in the meantime run on the simulator, then and later.

    Each launch is added to `launches`, those within a trace among them, which compute nothing.
    """
    own = mx.fast.metal_kernel
    noted: list[Launch] = [] if launches is None else launches

    def made(**options: object) -> Callable[..., list[mx.array]]:
        return _SimulatedKernel(options, threadgroup_bytes, noted)

    mx.fast.metal_kernel = made  # type: ignore[assignment]
    try:
        yield
    finally:
        mx.fast.metal_kernel = own


class _SimulatedKernel:
    """Takes what MLX's kernel takes; it computes at once, and what it reads has to be known."""

    def __init__(
        self, options: Mapping[str, object], threadgroup_bytes: int, launches: list[Launch]
    ) -> None:
        self._options, self._threadgroup_bytes = options, threadgroup_bytes
        self._launches = launches

    def __call__(
        self,
        *,
        inputs: Sequence[mx.array],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        output_shapes: Sequence[tuple[int, ...]],
        output_dtypes: Sequence[mx.Dtype],
        template: Sequence[tuple[str, object]] = (),
        init_value: float | None = None,
    ) -> list[mx.array]:
        """Launch the kernel."""
        given = self._options
        names, results = _texts(given["input_names"]), _texts(given["output_names"])
        compile_options = given.get("compile_options") or {}
        assert isinstance(compile_options, Mapping)
        kernel = Kernel.model_validate(
            {
                "name": given["name"],
                "inputs": names,
                "outputs": results,
                "source": given["source"],
                "header": given.get("header", ""),
                "template": {n: to_dtype(v) if isinstance(v, mx.Dtype) else v for n, v in template},
                "grid": grid,
                "threadgroup": threadgroup,
                "ensure_row_contiguous": given.get("ensure_row_contiguous", True),
                "atomic_outputs": given.get("atomic_outputs", False),
                "init_value": init_value,
                "math_mode": compile_options.get("math_mode", "safe"),
            }
        )
        program = Program(
            inputs=tuple(_tensor(n, a.shape, a.dtype) for n, a in zip(names, inputs, strict=True)),
            outputs=tuple(
                _tensor(n, s, d)
                for n, s, d in zip(results, output_shapes, output_dtypes, strict=True)
            ),
            kernels=(kernel,),
        )
        types = [TensorType(tuple(a.shape), to_dtype(a.dtype)) for a in inputs]
        self._launches.append((str(given["name"]), program, tuple(types)))
        try:
            mx.eval(list(inputs))
        except ValueError:
            # Within a trace, whose result is the derivative or the map of the original.
            return [mx.zeros(s, d) for s, d in zip(output_shapes, output_dtypes, strict=True)]
        device = open_device("simulator", self._threadgroup_bytes)
        executable = device.compile(program.bind(types))
        result = executable.run([to_numpy(a) for a in inputs], RunOptions())
        return [to_mlx(a) for a in result.outputs]


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, list)
    return tuple(map(str, value))


def _tensor(name: str, shape: Sequence[int], dtype: mx.Dtype) -> Tensor:
    return Tensor(name=name, dtype=to_dtype(dtype), shape=tuple(shape))
