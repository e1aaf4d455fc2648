"""Poison, canaries and input checks work on anything that MLX evaluates, the CPU included."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import mlx_dtype, to_mlx, to_numpy
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.execution import MlxExecutable, launch_error
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor

TYPE = TensorType((3, 5), Dtype.FLOAT32)


@dataclass(frozen=True)
class DoublingLaunch:
    """Writes twice its input, and `beyond` elements more than it should, with MLX's own ops."""

    kernel: Kernel
    beyond: int = 0
    nan: int = 0x7FC0_0000
    """The bits that this backend fills with where a NaN is asked for."""

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        if self.beyond < 0:
            raise RuntimeError("the GPU is gone")
        assert init_value is not None
        output = mx.full(types[0].shape, init_value, dtype=mlx_dtype(types[0].dtype))
        if math.isnan(init_value):
            output = mx.full(types[0].shape, self.nan, dtype=mx.uint32).view(mx.float32)
        value = (arrays[0] * 2).reshape(-1)
        written = mx.concatenate([value, mx.zeros(self.beyond)])
        return [mx.concatenate([written, output[written.size :]])]

    def load(self, arrays: Sequence[mx.array], types: Sequence[TensorType]) -> list[mx.array]:
        made = self.call(arrays, [TensorType((t.size,), t.dtype) for t in types], 0.0)
        mx.eval(made)
        return made

    def error(self, error: Exception) -> Exception:
        return launch_error(self.kernel, error)


def doubling(beyond: int = 0, nan: int = 0x7FC0_0000) -> MlxExecutable:
    kernel = Kernel(
        name="double",
        inputs=("x",),
        outputs=("y",),
        source="",
        grid=(15, 1, 1),
        threadgroup=(5, 1, 1),
    )
    program = Program(
        inputs=(Tensor(name="x", dtype=Dtype.FLOAT32, shape=(3, 5)),),
        outputs=(Tensor(name="y", dtype=Dtype.FLOAT32, shape=(3, 5)),),
        kernels=(kernel,),
    )
    bound: BoundProgram = program.bind([TYPE])
    return MlxExecutable(bound, (DoublingLaunch(kernel, beyond, nan),))


def inputs() -> list[Array]:
    return [np.arange(15, dtype=np.float32).reshape(3, 5)]


@pytest.mark.parametrize("poison", [0xFF, 0x00])
def test_run_returns_the_outputs_without_their_padding(poison: int) -> None:
    result = doubling().run(inputs(), RunOptions(poison=poison))
    np.testing.assert_array_equal(result.outputs[0], inputs()[0] * 2)
    assert result.canaries_intact == (True,)
    assert result.inputs_intact


def test_run_sees_a_write_beyond_the_end() -> None:
    result = doubling(beyond=1).run(inputs(), RunOptions())
    assert result.canaries_intact == (False,)


def test_any_nan_that_a_backend_fills_with_is_a_canary() -> None:
    assert doubling(nan=0x7FFF_FFFF).run(inputs(), RunOptions()).canaries_intact == (True,)
    result = doubling(beyond=1, nan=0x7FFF_FFFF).run(inputs(), RunOptions())
    assert result.canaries_intact == (False,)


def test_run_names_the_kernel_that_failed() -> None:
    with pytest.raises(LaunchError, match="kernel double did not run: the GPU is gone"):
        doubling(beyond=-1).run(inputs(), RunOptions())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_arrays_survive_the_way_to_mlx_and_back(dtype: type, shape: tuple[int, ...]) -> None:
    array: Array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    back = to_numpy(to_mlx(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


def test_load_runs_every_launch_on_zeros() -> None:
    doubling().load()


def test_load_names_the_kernel_that_does_not_run() -> None:
    with pytest.raises(LaunchError, match="kernel double did not run: the GPU is gone"):
        doubling(beyond=-1).load()
