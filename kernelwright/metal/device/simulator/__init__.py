"""Metal kernels on the CPU: compiled natively, run like a GPU, watched like neither."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.metal.device.simulator.library import (
        Library,
        SimulatedKernel,
        compile,  # noqa: A004 (the public name)
    )
else:
    offer_lazily(__name__)


__all__ = ["Library", "SimulatedKernel", "compile"]
