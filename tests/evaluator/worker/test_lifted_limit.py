"""A kernel that needs more threadgroup memory than Metal has, before devices with and without."""

import mlx.core as mx
import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import evaluate
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program, Tensor

SOURCE = """\
threadgroup float tile[SIZE];
uint i = thread_index_in_threadgroup;
for (uint j = i; j < SIZE; j += 64) tile[j] = x[j % 64] + 1.0f;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[i] = tile[SIZE - 64 + i];
"""
"""SIZE is a multiple of 64."""


def judged(floats: int, *, limit: int = 32768, source: str = SOURCE) -> Evaluation:
    task = Task(canonicalize(capture(lambda x: x + 1, mx.zeros((64,)))), "increment")
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(64,))
    kernel = Kernel(
        name="increment",
        inputs=("x",),
        outputs=("y",),
        source=source.replace("SIZE", str(floats)),
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
    )
    y = x.model_copy(update={"name": "y"})
    program = Program(inputs=(x,), outputs=(y,), kernels=(kernel,))
    return evaluate(task, program, config=EvaluatorConfig(secret="s", threadgroup_bytes=limit))


def test_a_lifted_limit_admits_what_metals_refuses() -> None:
    assert judged(15040).status is Status.LAUNCH_ERROR
    evaluation = judged(15040, limit=65536)
    assert evaluation.is_correct
    assert [c.threadgroup_bytes for c in evaluation.counters] == [60160]
    assert evaluation.device.chip.endswith(", 64 KB threadgroup memory")
    assert not evaluation.fits_metal


def test_a_lifted_limit_is_kept() -> None:
    evaluation = judged(16448, limit=65536)
    assert evaluation.status is Status.LAUNCH_ERROR
    assert "needs 65792 bytes, this device has 65536" in evaluation.summary


def test_what_runs_beyond_the_arrays_is_found_under_a_lifted_limit() -> None:
    wild = SOURCE.replace("y[i] = tile[SIZE - 64 + i]", "y[i] = tile[SIZE + i]")
    assert judged(15040, limit=65536, source=wild).status is Status.UNSAFE


def test_a_race_is_found_under_a_lifted_limit() -> None:
    hasty = SOURCE.replace("threadgroup_barrier(mem_flags::mem_threadgroup);", "")
    hasty = hasty.replace("tile[SIZE - 64 + i]", "tile[SIZE - 1 - i] - x[63 - i] + x[i]")
    assert judged(15040, limit=65536, source=hasty).status is Status.UNSAFE


def test_a_small_kernel_fits_metal_whatever_it_was_judged_under() -> None:
    assert judged(6400, limit=65536).fits_metal
    assert judged(6400).fits_metal


def test_times_of_what_no_mac_runs_are_predicted_for_another_chip() -> None:
    (timing,) = [s for s in judged(15040, limit=65536).stages if s.stage == "timing"]
    assert "predicted for h200" in timing.summary


def test_a_device_without_the_memory_gives_no_verdict() -> None:
    with pytest.raises(DeviceError, match="expected 32 KB to 227 KB of threadgroup memory"):
        judged(64, limit=1 << 20)
