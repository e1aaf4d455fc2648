"""A function's times on this machine: what takes turns, and what is never mixed."""

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import InputError
from kernelwright.metal.device.registry import default_device
from kernelwright.runtime.benchmark import BenchmarkCall, _arms, benchmark
from kernelwright.runtime.server import KernelServer
from tests.service.conftest import Searched, searched

__all__ = ["searched"]


def _norm(x: mx.array) -> mx.array:
    return x * mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def _timed(function: object, *args: object, **kwargs: object) -> dict[str, float]:
    assert callable(function)
    call = BenchmarkCall(function, args, kwargs)
    told = benchmark(call, device="simulator", rounds=5, seconds=0.1)
    assert told.gain is None
    assert not told.is_gpu
    assert "no GPU that runs Metal kernels" in told.left_out["ours"]
    assert told.fastest in {arm.name for arm in told.arms}
    for arm in told.arms:
        assert 0 < arm.lower_us <= arm.median_us <= arm.upper_us
    return {arm.name: arm.median_us for arm in told.arms}


def test_mlx_takes_turns_on_the_cpu_and_kernels_are_not_among_them() -> None:
    assert set(_timed(_norm, mx.zeros((8, 64)))) == {"eager MLX", "mx.compile", "mx.fast"}
    assert set(_timed(mx.tanh, mx.zeros((8, 64)))) == {"eager MLX", "mx.compile"}


def test_nests_keywords_and_arguments_changed_in_place_are_timed() -> None:
    def pick(parts: dict[str, mx.array], *, scale: mx.array, n: int = 2) -> dict[str, mx.array]:
        return {"sum": parts["a"] * scale + n, "same": parts["b"]}

    def add(total: mx.array, x: mx.array) -> None:
        total[0] += x

    parts = {"a": mx.ones((4, 8)), "b": mx.ones((3,))}
    assert len(_timed(pick, parts, scale=mx.ones((8,)))) == 2
    assert "eager MLX" in _timed(add, mx.zeros((2, 8)), mx.ones((8,)))


def test_indices_stay_within_their_tables() -> None:
    def look_up(table: mx.array, ids: mx.array) -> mx.array:
        return table[ids]

    assert "eager MLX" in _timed(look_up, mx.zeros((5, 8)), mx.zeros((64,), mx.int32))


def test_a_function_that_does_not_run_is_one_sentence() -> None:
    with pytest.raises(InputError, match="matmul"):
        _timed(mx.matmul, mx.zeros((2, 3)), mx.zeros((2, 3)))


def test_ours_is_what_optimize_serves(searched: Searched) -> None:
    def double(x: mx.array) -> mx.array:
        return mx.maximum(x * 2, 0.5) + 1

    x = mx.random.normal((8, 32))
    call, graph = BenchmarkCall(double, (x,)), ir.canonicalize(ir.capture(double, x))
    server = KernelServer(searched.url, "simulator")
    arms, left_out = _arms(call, graph, server, [x])
    if "ours" in left_out:
        assert "MLX is best" in left_out["ours"]
    else:
        assert mx.allclose(arms["ours"]([x])[0], double(x))
    none, reasons = _arms(call, graph, KernelServer(searched.url + ".none", "simulator"), [x])
    assert "ours" not in none
    assert "no kernel store" in reasons["ours"]


@pytest.mark.skipif(default_device() == "simulator", reason="there is no GPU here")
def test_on_a_gpu_every_time_is_of_the_gpu() -> None:
    call = BenchmarkCall(_norm, (mx.zeros((512, 1024)),))
    told = benchmark(call, device=default_device(), rounds=5, seconds=1.0)
    assert told.is_gpu
    assert (told.gain is None) == ("ours" in told.left_out)
