"""The file that `kernelwright doctor --deep` writes, and what it says of a machine."""

import platform
from importlib.metadata import version
from pathlib import Path

from kernelwright.evaluator.evidence.result import Comparison, load_record
from kernelwright.metal.device.simulator.toolchain import compiler_version
from kernelwright.metal.diagnostic import Record


class Machine(Record):
    """Where evidence comes from."""

    system: str
    """`Darwin 24.5.0` or another kernel's name and version."""
    macos: str = ""
    processor: str
    gpu: str = ""
    """The chip of the device that was compared; empty where the simulator alone ran."""
    python: str
    mlx: str
    kernelwright: str
    simulator_compiler: str

    @classmethod
    def here(cls, gpu: str) -> "Machine":
        """Describe this machine."""
        return cls(
            system=f"{platform.system()} {platform.release()}",
            macos=platform.mac_ver()[0],
            processor=platform.machine(),
            gpu=gpu,
            python=platform.python_version(),
            mlx=version("mlx"),
            kernelwright=version("kernelwright"),
            simulator_compiler=compiler_version(),
        )

    @property
    def name(self) -> str:
        """The chip with its system, or the processor."""
        where = f"macOS {self.macos}" if self.macos else self.system
        return f"{self.gpu or self.processor}, {where}, mlx {self.mlx}"


class Evidence(Record):
    """Everything that one machine said."""

    machine: Machine
    verdicts: Comparison
    timings: Comparison | None = None
    """Programs at their own shapes, with times measured and predicted; none without a GPU."""
    not_run: tuple[str, ...] = ()
    """Each step that this machine cannot run, and why."""

    @classmethod
    def load(cls, path: Path) -> "Evidence":
        """Read a file.

        Raises:
            InputError: there is no such file, or it holds no evidence.
        """
        advice = f"; make it with `kernelwright doctor --deep --out {path.name}`"
        return load_record(cls, path, "evidence", advice)

    @property
    def disagreements(self) -> int:
        """Programs on which two devices differ, or on which a verdict is not a right one."""
        rows = (*self.verdicts.rows, *(self.timings.rows if self.timings is not None else ()))
        return sum(row.differs or row.is_astray for row in rows)

    @property
    def has_gpu(self) -> bool:
        """Say whether a GPU was compared with the simulator."""
        return len(self.verdicts.devices) > 1
