"""Small Metal kernels for tests: a body, its arrays, and what it wrote."""

from collections.abc import Callable, Collection, Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.function_constant import Constants
from kernelwright.metal.device.simulator.library import (
    Argument,
    Key,
    Library,
    SimulatedKernel,
)
from kernelwright.metal.device.simulator.library import compile as compile_metal
from kernelwright.metal.device.simulator.record import Outcome

_NAMES = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.uint8): "uchar",
    np.dtype(np.int8): "char",
    np.dtype(np.uint16): "ushort",
    np.dtype(np.int16): "short",
    np.dtype(np.uint32): "uint",
    np.dtype(np.int32): "int",
    np.dtype(np.uint64): "ulong",
    np.dtype(np.int64): "long",
    np.dtype(np.float16): "half",
    np.dtype(np.float32): "float",
    np.dtype(ml_dtypes.bfloat16): "bfloat",
}


class WatchedLibrary(Library):
    """A library whose kernels must give the sanitizer nothing to report."""

    def kernel(self, name: str, constants: Constants | None = None) -> "WatchedKernel":
        """Return a kernel that sanitizes each launch first."""
        kernel = super().kernel(name, constants)
        return WatchedKernel(self, name, kernel.constants)


class WatchedKernel(SimulatedKernel):
    """A kernel whose launches are first sanitized on copies, in two orders of the threads."""

    def launch(
        self,
        buffers: Mapping[Key, Argument] | Sequence[Argument],
        *,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        threadgroup_bytes: Mapping[Key, int] | None = None,
        fresh: Collection[Key] = (),
        sanitize: bool = False,
        count: bool = False,
        count_all: bool = False,
        order_seed: int = 0,
        timeout_s: float = 30.0,
    ) -> Outcome:
        """Sanitize, then launch."""

        def run(arguments: Mapping[Key, Argument] | Sequence[Argument], seed: int) -> Outcome:
            return super(WatchedKernel, self).launch(
                arguments,
                grid=grid,
                threadgroup=threadgroup,
                threadgroup_bytes=threadgroup_bytes,
                fresh=fresh,
                sanitize=sanitize or seed != order_seed,
                count=count,
                count_all=count_all,
                order_seed=seed,
                timeout_s=timeout_s,
            )

        for seed in (1, 2):
            assert run(_copies(buffers), seed).reports == ()
        return run(buffers, order_seed)


def _copies(
    buffers: Mapping[Key, Argument] | Sequence[Argument],
) -> Mapping[Key, Argument] | Sequence[Argument]:
    if isinstance(buffers, Mapping):
        return {key: _copy(value) for key, value in buffers.items()}
    return [_copy(value) for value in buffers]


def _copy(value: Argument) -> Argument:
    return value.copy() if isinstance(value, np.ndarray) else value


@pytest.fixture(scope="session")
def probe() -> Callable[..., dict[str, Array]]:
    """Run a body in which `i` is the thread, `lane` its lane, `t` its place in the threadgroup.

    Arrays of `inputs` are read and those of `outputs` written under their names; `types` gives a
    name another element type than its dtype's. Returns copies of the outputs.
    """

    def run(
        body: str,
        *,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        threads: int,
        header: str = "",
        types: Mapping[str, str] | None = None,
        threadgroup: int | None = None,
    ) -> dict[str, Array]:
        names = {n: _NAMES[a.dtype] for n, a in {**inputs, **outputs}.items()} | dict(types or {})
        parameters = [f"device const {names[n]}* {n}" for n in inputs]
        parameters += [f"device {names[n]}* {n}" for n in outputs]
        source = "\n".join(
            (
                "#include <metal_stdlib>",
                "using namespace metal;",
                header,
                f"kernel void probe({', '.join(parameters)},",
                "  uint i [[thread_position_in_grid]],",
                "  uint t [[thread_position_in_threadgroup]],",
                "  uint lane [[thread_index_in_simdgroup]]) {",
                body,
                "}",
            )
        )
        arrays: dict[int | str, Argument] = {n: np.ascontiguousarray(inputs[n]) for n in inputs}
        written = {n: a.copy() for n, a in outputs.items()}
        arrays.update(written)
        compile_metal(source).kernel("probe").launch(
            arrays, grid=(threads, 1, 1), threadgroup=(threadgroup or min(threads, 256), 1, 1)
        )
        return written

    return run


@pytest.fixture(scope="session")
def mlx_library() -> Callable[..., Library]:
    """Compile MLX's own kernels from its wheel's headers, as MLX instantiates them.

    `headers` are names below `mlx/backend/metal/kernels`; `kernels` gives each host name the
    template and its arguments; `more` is text after them.
    """

    def load(
        headers: Sequence[str], kernels: Mapping[str, tuple[str, str]], more: str = ""
    ) -> Library:
        lines = [f'#include "mlx/backend/metal/kernels/{name}"' for name in ("utils.h", *headers)]
        for name, (function, arguments) in kernels.items():
            lines.append(f'instantiate_kernel("{name}", {function}, {arguments})')
        text = "\n".join((*lines, more, ""))
        return WatchedLibrary(compile_metal(text, prelude="metal", variant="sanitize").unit)

    return load


@pytest.fixture(scope="session")
def mlx_kernel(mlx_library: Callable[..., Library]) -> Callable[..., SimulatedKernel]:
    """Compile one of MLX's own kernels, specialised by function constants."""

    def load(
        headers: Sequence[str],
        function: str,
        arguments: Sequence[object],
        constants: Mapping[int | str, bool | int | float] | None = None,
    ) -> SimulatedKernel:
        written = ", ".join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)
        return mlx_library(headers, {"it": (function, written)}).kernel("it", constants)

    return load
