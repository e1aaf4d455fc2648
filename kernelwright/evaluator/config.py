"""Everything that decides a verdict besides task, program and device, as one frozen record."""

import hashlib
import secrets

from pydantic import Field

from kernelwright.evaluator.evaluation import Stage
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo, FastError
from kernelwright.metal.diagnostic import Record

_ROOMY_CHIP = "h200"
"""Has 227 KB of threadgroup memory."""


class TimingPlan(Record):
    """How a comparison is sampled and when it counts; fixed before the first sample."""

    pairs: int = Field(default=24, ge=6)
    """Interleaved pairs of candidate and baseline, in ABBA blocks of two."""
    warmups: int = 5
    minimum_sample_s: float = 4e-3
    """A sample repeats the launch until it lasts this long, so that overhead amortises."""
    maximum_repeats: int = 512
    rotation_bytes: int = 128 << 20
    """Inputs rotate over more bytes than an M-series Ultra's last-level cache holds (96 MB)."""
    copy_bytes: int = Field(default=256 << 20, ge=4096)
    """Read and written by the copy that measures the bandwidth and watches for drift."""
    verified_share: float = 0.1
    """Share of the timed samples of which one launch is compared with the oracle."""
    most_verified: int = 6
    """Launches compared at most in one order, drawn evenly from all of it: oracles are slow."""
    canary_tolerance: float = 0.05
    """A block counts only while the canary kernel stays this close to its median."""
    resamples: int = 2000
    """Bootstrap resamples behind every interval."""
    minimum_effect: float = 0.02
    """The least gain worth promoting: 2 %."""
    alpha: float = 0.05
    """Largest accepted chance that a search promotes anything without merit."""
    plausibility: float = 1.05
    """Tolerated excess over the measured bandwidth and the chip's peak arithmetic."""


class EvaluatorConfig(Record):
    """The frozen inputs of a verdict: same task, program, device and config, same verdict.

    `secret` seeds every case. A search draws a fresh one and shows only `commitment`, so no
    program can hold answers for the inputs it will meet.
    """

    secret: str = Field(default_factory=lambda: secrets.token_hex(16), min_length=1)
    through: Stage = Stage.TIMING
    """The last stage to run; a champion must pass `Stage.CONFIRMATION`."""
    determinism_runs: int = Field(default=5, ge=2)
    generic_shapes: int = 4
    """Off-grid shapes tried when a program says that it serves more than one."""
    generic_elements: int = 10_000_000
    """The most that inputs and outputs, or values on the way, have there: others are lowered."""
    case_elements: int = 1 << 18
    """Above this many elements only four kinds of case run at full shape, mixed rows among them."""
    large_elements: int = 1 << 22
    """Above this many only a mixed case runs at full shape, where a program serves others too."""
    run_timeout_s: float = 20.0
    """On a GPU by the clock; on the simulator the processor time of two cores."""
    compile_timeout_s: float = 30.0
    measure_timeout_s: float = 300.0
    """For all the samples of one order: dozens of blocks against every baseline."""
    memory_bytes: int = 8 << 30
    """What a candidate's worker may allocate, and its arrays may take together."""
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES
    """What a threadgroup may take on a device that is opened by name, and on the simulator before
    it; more than Metal's 32 KB only on `cuda` and the simulator, and what needs it fits no Mac."""
    fast_error: FastError = "worst"
    """Whether `mx.allclose` has to hold with `fast::` functions as far off as Apple documents."""
    chip: str = "m4-pro"
    """Whose profile predicts times on a device that measures none and stands for no chip."""
    stands_for: str = ""
    """The chip that a simulator opened by name stands for; see `registry.open_device`."""
    timing: TimingPlan = TimingPlan()

    def chip_for(self, device: DeviceInfo) -> str:
        """Return whose profile predicts times: what exceeds Metal's limit fits no Apple chip."""
        return device.stands_for or (_ROOMY_CHIP if device.exceeds_metal else self.chip)

    def runs(self, stage: Stage) -> bool:
        """Say whether a verdict comes as far as a stage."""
        order = tuple(Stage)
        return order.index(stage) <= order.index(self.through)

    @property
    def commitment(self) -> str:
        """Return the hash of the secret, which may be published before a search begins."""
        return hashlib.sha256(self.secret.encode()).hexdigest()
