"""The least time that a task can take on a chip, so that nobody is asked to go below it."""

from kernelwright.agents.session.tools.report import chip_of
from kernelwright.evaluator.speed.floor import Floor
from kernelwright.evaluator.speed.roofline import least_bytes, least_operations
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo


def floor_of(graph: Graph, device: DeviceInfo) -> Floor | None:
    """Return a task's floor on the chip that times hold for, None where its profile is unknown.

    It is of one launch that moves and multiplies only what every right kernel must.
    """
    chip = chip_of(device)
    if chip is None:
        return None
    memory_us = least_bytes(graph) / (chip.bandwidth_gb_s * 1e3 * chip.bandwidth_efficiency)
    return Floor(
        launch_us=chip.launch_us,
        parts_us={
            "until any threads have begun, read and ended": chip.least_wait_us,
            "to move what must be": memory_us,
            "to multiply what must be": least_operations(graph) / (chip.float_tflops * 1e6),
        },
    )
