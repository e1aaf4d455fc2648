"""Apple's messages come back on the kernel's own lines; the rest needs an Apple GPU."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.metal import MetalDevice, MetalLaunch, compiler_diagnostics
from kernelwright.metal.diagnostic import CompileError, LaunchError
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor

needs_apple_gpu = pytest.mark.skipif(not mx.metal.is_available(), reason="no Apple GPU here")

SOURCE = "uint i = thread_position_in_grid.x;\ny[i] = x[i] * scale;\n"
MESSAGE = """\
[metal::Device] Unable to build metal library from source
mlx/backend/metal/kernels/utils.h:493:15: error: use of undeclared identifier 'scale'
y[i] = x[i] * scale;
              ^
"""


def program(source: str = SOURCE) -> BoundProgram:
    array = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(64,))
    kernel = Kernel(
        name="scale",
        inputs=("x",),
        outputs=("y",),
        source=source,
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
    )
    made = Program(
        inputs=(array,), outputs=(array.model_copy(update={"name": "y"}),), kernels=(kernel,)
    )
    return made.bind([TensorType((64,), Dtype.FLOAT32)])


def test_message_is_found_again_by_its_quoted_line() -> None:
    (diagnostic,) = compiler_diagnostics(MESSAGE, program().program.kernels[0])
    assert (diagnostic.file, diagnostic.line, diagnostic.column) == ("source", 2, 15)
    assert diagnostic.message == "use of undeclared identifier 'scale'"


def test_failure_to_build_is_a_compile_error_and_others_are_launch_errors() -> None:
    launch = MetalLaunch(program().launches[0])
    assert isinstance(launch.error(RuntimeError(MESSAGE)), CompileError)
    assert isinstance(launch.error(RuntimeError("[METAL] Command buffer failed")), LaunchError)


@pytest.mark.skipif(mx.metal.is_available(), reason="an Apple GPU is here")
def test_a_machine_without_an_apple_gpu_says_so() -> None:
    with pytest.raises(DeviceError, match="no Apple GPU; Kernelwright's simulator"):
        MetalDevice()


@pytest.mark.metal
@needs_apple_gpu
def test_kernel_runs_on_the_gpu() -> None:
    x = np.arange(64, dtype=np.float32)
    executable = MetalDevice().compile(program(SOURCE.replace("scale", "2")))
    result = executable.run([x], RunOptions())
    np.testing.assert_array_equal(result.outputs[0], x * 2)
    assert result.canaries_intact == (True,)


@pytest.mark.metal
@needs_apple_gpu
def test_compile_error_names_the_line() -> None:
    with pytest.raises(CompileError, match="source:2:"):
        MetalDevice().compile(program()).run([np.zeros(64, np.float32)], RunOptions())
