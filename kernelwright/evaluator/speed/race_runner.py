"""Races on a device that measures time: what is known of the machine, and how each one counts."""

import math
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.speed.promotion import Roofline
from kernelwright.evaluator.speed.race import Race, race
from kernelwright.evaluator.speed.remote_benchmark import open_laboratory
from kernelwright.evaluator.speed.roofline import least_bytes, least_operations
from kernelwright.evaluator.speed.timing import EndsIf
from kernelwright.evaluator.speed.timing_cases import TimingCases
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import ChipProfile, find_profile

_ORDERING_SHARE = 0.5
"""Of the usual length of a sample, where candidates are only put in order."""
_MATRIX_UNITS = 16.0
"""Times the ordinary peak: H200's tensor cores do 989 TFLOPS in half precision, its other units
67 in single (NVIDIA's data sheet); no Apple GPU's matrix units come near that factor."""


@dataclass(frozen=True)
class Outcome:
    """A race with the bandwidth of the process that it was run in."""

    race: Race
    bytes_per_s: float


@dataclass(frozen=True)
class Track:
    """Where one program is raced."""

    config: EvaluatorConfig
    info: DeviceInfo
    tried: int
    """Candidates tried on the task so far, this one included."""

    def screen(self, trial: Trial, cases: TimingCases) -> Outcome | str:
        """Race to be ordered among candidates; return why not where MLX cannot compute it."""
        return self._race(trial, cases, tried=self.tried, proves=False, ends_if="hopeless")

    def compare(self, trial: Trial, cases: TimingCases) -> Outcome | str:
        """Race until it is no slower than every baseline, or in full; prove nothing."""
        return self._race(trial, cases, tried=self.tried, proves=False, ends_if="ahead")

    def prove(self, trial: Trial, cases: TimingCases) -> Outcome | str:
        """Race against every baseline, and once more against the fastest for a proof."""
        return self._race(trial, cases, tried=self.tried, proves=True)

    def confirm(self, trial: Trial, cases: TimingCases) -> Outcome | str:
        """Race once more, the baseline first; one look, so no correction for many."""
        return self._race(trial, cases, tried=1, proves=True, reverse=True)

    def _race(
        self,
        trial: Trial,
        cases: TimingCases,
        *,
        tried: int,
        proves: bool,
        reverse: bool = False,
        ends_if: EndsIf = "",
    ) -> Outcome | str:
        plan = self.config.timing
        if ends_if == "hopeless":
            sample_s = plan.minimum_sample_s * _ORDERING_SHARE
            plan = plan.model_copy(update={"minimum_sample_s": sample_s})
        seed = int.from_bytes(cases.secret.encode()[:6], "little") + reverse
        cases.work_out_ahead()
        laboratory = open_laboratory(trial, cases, plan, seed)
        if isinstance(laboratory, str):
            return laboratory
        found = race(
            laboratory,
            plan,
            roofline_of(cases.graph, laboratory.bytes_per_s, self.info.bare_chip),
            cases.judge,
            tried=tried,
            reverse=reverse,
            seed=seed,
            proves=proves,
            ends_if=ends_if,
        )
        return Outcome(found, laboratory.bytes_per_s)


def roofline_of(graph: Graph, bytes_per_s: float, chip: str) -> Roofline:
    """Return the least that a task can cost; of an unknown chip memory alone sets it."""
    profile = profile_of(chip)
    operations_per_s = profile.float_tflops * 1e12 * _MATRIX_UNITS if profile else math.inf
    return Roofline(least_bytes(graph), least_operations(graph), bytes_per_s, operations_per_s)


def profile_of(chip: str) -> ChipProfile | None:
    """Return a chip's profile, None where nobody has written one."""
    try:
        return find_profile(chip)
    except InputError:
        return None
