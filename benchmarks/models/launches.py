"""What a launch costs the host on CUDA: MLX's own kernels, and ours named in full and in short.

python -m benchmarks.models.launches
"""

import sys
import time
from collections.abc import Callable, Sequence

import mlx.core as mx

from kernelwright import ir
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.device.registry import open_device
from kernelwright.metal.lower import lower, schedules

_LINKS, _REPEATS = 200, 10
Run = Callable[..., Sequence[mx.array]]


def main() -> int:
    """Time chains of launches, each of which waits for the one before."""
    if not mx.cuda.is_available():
        print("expected an NVIDIA GPU and MLX's CUDA backend; found none.")
        return 1
    device = open_device("cuda")
    x, w = mx.random.normal((1, 1, 2048)).astype(mx.bfloat16), mx.ones((2048,), mx.bfloat16)
    packed = mx.quantize(mx.random.normal((2048, 2048)).astype(mx.bfloat16), 64, 4)
    mx.eval(x, w, packed)
    print("µs of a launch: build in Python, encode, until the GPU is done")
    _row(device, "rms_norm", lambda x, w: [mx.fast.rms_norm(x, w, 1e-5)], [x, w])
    _row(device, "4-bit product", _product, [x, *packed])
    return 0


def _product(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> list[mx.array]:
    return [mx.quantized_matmul(x, w, scales, biases, transpose=True, group_size=64, bits=4)]


def _row(device: Device, name: str, mlx: Run, arrays: Sequence[mx.array]) -> None:
    graph = ir.canonicalize(ir.capture(mlx, *arrays))
    program = lower(graph, schedules(graph, device.info)[0]).bind(graph.input_types)
    executable = device.compile(program)
    assert isinstance(executable, MlxExecutable)

    def ours() -> Run:
        return mx.compile(lambda *given: executable.graph(given))

    _show(f"MLX's {name}", mlx, arrays)
    _show(f"ours, {name}, named by its binary", ours(), arrays)
    executable.load()
    _show(f"ours, {name}, named by eight bytes", ours(), arrays)


def _show(name: str, run: Run, arrays: Sequence[mx.array]) -> None:
    x, *rest = arrays
    best = min((_timed(run, x, rest) for _ in range(_REPEATS)), key=lambda taken: taken[2])
    print(f"{name:40}", *(f"{taken_s / _LINKS * 1e6:7.2f}" for taken_s in best))


def _timed(run: Run, x: mx.array, rest: Sequence[mx.array]) -> tuple[float, float, float]:
    begun = time.perf_counter()
    for _ in range(_LINKS):
        x = run(x, *rest)[0]
    built = time.perf_counter()
    mx.synchronize()
    waiting = time.perf_counter()
    mx.async_eval(x)  # type: ignore[no-untyped-call]
    encoded = time.perf_counter()
    mx.synchronize()
    return built - begun, encoded - waiting, time.perf_counter() - waiting


if __name__ == "__main__":
    sys.exit(main())
