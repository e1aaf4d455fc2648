"""The suite times MLX's own kernel too where it has one, however a workload is written."""

import mlx.core as mx
import numpy as np
import pytest

from benchmarks.suite.baseline import mlx_ways
from benchmarks.suite.report import markdown
from benchmarks.suite.result import SuiteRun, WorkloadResult
from benchmarks.suite.workload import Workload, from_catalog
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.array import to_numpy
from kernelwright.metal.device.base import DeviceInfo


def _rms_norm(x: mx.array, w: mx.array) -> mx.array:
    return x * mx.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * w


def _layer_norm(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    away = x - x.mean(axis=-1, keepdims=True)
    return away * mx.rsqrt((away**2).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def _rope(x: mx.array) -> mx.array:
    half = x.shape[-1] // 2
    frequencies = mx.exp(mx.arange(half, dtype=mx.float32) * (-np.log(10000.0) / half).item())
    angles = mx.arange(x.shape[-2], dtype=mx.float32)[:, None] * frequencies
    cos, sin = mx.cos(angles), mx.sin(angles)
    a, b = x[..., :half], x[..., half:]
    turned = mx.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return turned.astype(x.dtype)


def _attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.softmax((q * 0.125) @ k.swapaxes(-1, -2), axis=-1) @ v


def _loss(x: mx.array, target: mx.array) -> mx.array:
    chosen = mx.take_along_axis(x, target[:, None], axis=-1).squeeze(-1)
    return mx.logsumexp(x, axis=-1) - chosen


def _delta(
    q: mx.array, k: mx.array, v: mx.array, gamma: mx.array, beta: mx.array
) -> tuple[mx.array, ...]:
    return tuple(mx.fast.gated_delta_update(q, k, v, gamma, beta))


_HEADS = ("T[1,2,32,64]", "T[1,2,32,64]", "T[1,2,32,64]")
_DELTA = ("T[1,4,2,32]", "T[1,4,2,32]", "T[1,4,4,32]", "T[1,4,4]<2", "T[1,4,4]<2")
WITH_KERNEL = (
    Workload("rms_norm", "by hand", _rms_norm, ("T[8,64]", "T[64]"), "none"),
    Workload("layer_norm", "by hand", _layer_norm, ("T[8,64]", "T[64]", "T[64]"), "none"),
    # In half precisions MLX's CPU backend rounds what its GPU kernel does not.
    Workload("rope", "by hand", _rope, ("T[1,2,16,64]",), "none", dtypes=(Dtype.FLOAT32,)),
    Workload("attention", "by hand", _attention, _HEADS, "none"),
    Workload("cross_entropy", "by hand", _loss, ("T[8,512]", "i32[8]<512"), "none"),
    Workload("gated_delta_update", "traced", _delta, _DELTA, "none"),
    from_catalog("cross_entropy", "T[8,512]", "i32[8]<512", model="none"),
)


CASES = [
    pytest.param(workload, dtype, id=f"{workload.name} {workload.group} {dtype.short}")
    for workload in WITH_KERNEL
    for dtype in workload.dtypes
]


@pytest.mark.parametrize(("workload", "dtype"), CASES)
def test_what_mx_fast_computes_is_a_baseline_with_the_workloads_answer(
    workload: Workload, dtype: Dtype
) -> None:
    ways = mlx_ways(workload, dtype)
    assert list(ways) == ["eager", "compile", "fast"]
    inputs = workload.make_inputs(dtype, seed=3)
    tolerance = 1e-4 if dtype is Dtype.FLOAT32 else 4 * dtype.epsilon
    for found, wanted in zip(ways["fast"](*inputs), ways["eager"](*inputs), strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        ours, theirs = (to_numpy(x.astype(mx.float32)).astype(float) for x in (found, wanted))
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)


def test_what_mlx_has_no_kernel_for_is_timed_as_written() -> None:
    gate = Workload("gate", "none", lambda x, y: x * mx.sigmoid(y), ("T[8,64]",) * 2, "none")
    assert list(mlx_ways(gate, Dtype.FLOAT16)) == ["eager", "compile"]


def test_the_table_says_which_of_mlxs_ways_was_fastest() -> None:
    info = DeviceInfo(name="cuda", chip="a chip", runtime="none", measures_time=True)
    speedup = Speedup(ratio=1.25, lower=1.2, upper=1.3, baseline="fast", kind="measured")
    row = WorkloadResult(
        name="cross_entropy",
        group="losses",
        model="none",
        dtype=Dtype.FLOAT16,
        is_memory_bound=True,
        bytes_moved=1024,
        regions=1,
        nodes_left=0,
        candidate_us=8.0,
        baselines_us={"eager": 30.0, "compile": 12.0, "fast": 10.0},
        fastest_baseline="fast",
        speedups=(speedup,),
    )
    plain = row.model_copy(update={"name": "gate", "baselines_us": {"eager": 3.0, "compile": 2.0}})
    run = SuiteRun(
        device=info, mlx="0", copy_bytes_per_s=1e12, launch_us=2.0, seed=0, results=(row, plain)
    )
    text = markdown(SuiteRun.model_validate_json(run.model_dump_json()))
    assert "| cross_entropy | f16 | 8.0 | 30.0 | 12.0 | 10.0 | fast | 1.25x |" in text
    assert "| gate | f16 | 8.0 | 3.0 | 2.0 | – |" in text
