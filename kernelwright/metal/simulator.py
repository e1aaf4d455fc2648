"""The simulator under its public name: `metal.simulator.compile(source)`."""

from kernelwright.metal.device.simulator import (
    Library,
    SimulatedKernel,
    compile,  # noqa: A004 (the public name)
)

__all__ = ["Library", "SimulatedKernel", "compile"]
