"""A device that measures time, on any machine: the simulator, with a clock whose truth is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelwright.evaluator.attacks.device import Misdeed, commit
from kernelwright.evaluator.attacks.synthetic import Machine, Noise, SyntheticArm, steady
from kernelwright.evaluator.speed.measuring import SetUp
from kernelwright.evaluator.speed.timing import Bench, Measurements, Order, Session
from kernelwright.metal.device.base import DeviceInfo, RunOptions
from kernelwright.metal.device.executable import Array, Executable
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import BoundProgram

_COPY_NS = 50_000.0
QUIET = Noise(layout=0.002)
"""A machine on which a gain of a few per cent shows."""


@dataclass(frozen=True)
class TimedDevice:
    """Computes as the simulator does; what a launch costs is declared.

    Everything between an evaluator and its worker is real: programs run, outputs come from
    them, samples travel. Only the clock is not, so that what a verdict should be is known.
    """

    candidate_ns: float
    baselines_ns: tuple[tuple[str, float], ...] = (("eager", 300_000.0), ("compile", 100_000.0))
    bytes_per_s: float = 1e12
    misdeed: Misdeed = Misdeed.NONE
    """Committed in timed launches only, after a few of them."""
    is_fast_on: float = np.inf
    """Inputs with an element above this cost three times as much."""
    is_fast_from: int = 0
    """Inputs with fewer elements together cost three times as much."""
    forgets_from: int | None = None
    """From this timed launch on, outputs are those of the first slot."""
    noise: Noise = QUIET

    @property
    def info(self) -> DeviceInfo:
        """Return what a GPU would, so that it is treated as one."""
        return DeviceInfo(name="cuda", chip="synthetic", runtime="none", measures_time=True)

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> Executable:
        """Compile for the simulator."""
        return SimulatorDevice().compile(program)

    def laboratory(self, executable: Executable, request: SetUp) -> "TimedLaboratory":
        """Set a program up beside baselines of declared cost."""
        return TimedLaboratory(self, executable, request)


@dataclass
class CandidateArm:
    """A program that runs when somebody looks, and costs what its device declares."""

    device: TimedDevice
    machine: Machine
    executable: Executable
    inputs: Sequence[Sequence[Array]]
    name: str = "candidate"
    launches: int = 0

    @property
    def slots(self) -> int:
        """Return how many sets of inputs there are."""
        return len(self.inputs)

    def prepare(self, slots: Sequence[int]) -> None:
        """Nothing is done ahead of a launch."""

    def launch(self, slots: Sequence[int]) -> None:
        """Spend the declared cost, and misbehave where the device is told to."""
        self.launches += len(slots)
        if self.launches > 10:
            commit(self.device.misdeed, "")
        self.machine.spend(sum(map(self._cost, slots)))

    def _cost(self, slot: int) -> float:
        largest = max(float(np.nanmax(np.abs(array), initial=0.0)) for array in self.inputs[slot])
        elements = sum(array.size for array in self.inputs[slot])
        is_slow = largest > self.device.is_fast_on or elements < self.device.is_fast_from
        return self.device.candidate_ns * (3 if is_slow else 1)

    def outputs(self, slot: int) -> tuple[Array, ...]:
        """Run the program on the slot's inputs."""
        first = self.device.forgets_from
        if first is not None and self.launches > first:
            slot = 0
        return self.executable.run(self.inputs[slot], RunOptions()).outputs


@dataclass
class TimedLaboratory:
    """Times one program by the device's own clock."""

    device: TimedDevice
    executable: Executable
    request: SetUp
    _session: Session = field(init=False)

    def __post_init__(self) -> None:
        """Lay out the bench."""
        random = np.random.default_rng(self.request.seed)
        self._session = Session(self._bench(random), self.request.plan, random)

    def measure(self, order: Order) -> Measurements:
        """Carry out an order."""
        return self._session.measure(order)

    def bytes_per_s(self) -> float:
        """Return the declared bandwidth."""
        return self.device.bytes_per_s

    def _bench(self, random: np.random.Generator) -> Bench:
        machine = Machine(self.device.noise, random)
        slots = len(self.request.inputs)

        def arm(name: str, nanoseconds: float) -> SyntheticArm:
            bias = float(np.exp(random.normal(0, self.device.noise.layout)))
            return SyntheticArm(machine, name, steady(nanoseconds), slots=slots, layout_bias=bias)

        baselines = tuple(arm(name, cost) for name, cost in self.device.baselines_ns)
        return Bench(
            clock=machine,
            candidate=CandidateArm(self.device, machine, self.executable, self.request.inputs),
            baselines=baselines,
            canary=arm("canary", _COPY_NS),
            make_twin=lambda: arm("twin", self.device.baselines_ns[0][1]),
            empty=arm("empty", 100.0),
        )
