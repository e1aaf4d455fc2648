"""Metal kernels on the CPU: compiled natively, run like a GPU, watched like neither."""

from kernelwright.metal.device.simulator.library import (
    Library,
    SimulatedKernel,
    compile,  # noqa: A004 (the public name)
)

__all__ = ["Library", "SimulatedKernel", "compile"]
