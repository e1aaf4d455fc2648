"""What the evaluator found: a status, a diagnosis, errors, samples."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, model_validator

from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, Counters, DeviceInfo
from kernelwright.metal.diagnostic import Diagnostic, Record, SanitizerReport

EVALUATOR_VERSION = 25
"""Raised when cases or stages change: what an earlier one said is then asked again."""

LEAST_GAIN = 1.005
"""Up to this ratio a kernel gains nothing: what is rounded to percents would show none."""


class Status(StrEnum):
    """A candidate's verdict. Only `CORRECT` and `PROMOTED` may ever be exported."""

    MALFORMED = "malformed"
    """The program does not fit the task: arity, shapes, dtypes, launch arithmetic."""
    FORBIDDEN = "forbidden"
    """A static rule refuses the text."""
    COMPILE_ERROR = "compile error"
    LAUNCH_ERROR = "launch error"
    UNSAFE = "unsafe"
    """The sanitizer reported, a canary died, or an input changed."""
    WRONG = "wrong"
    NONDETERMINISTIC = "nondeterministic"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out of memory"
    IMPLAUSIBLE = "implausible"
    """Faster than the memory bus or the ALUs allow."""
    UNPROVEN = "unproven"
    """Correct, and the hidden gate or the confirmation did not hold."""
    CORRECT = "correct"
    PROMOTED = "promoted"
    """Correct, faster than the baseline with confidence, and confirmed."""


class Stage(StrEnum):
    """The steps of an evaluation, in order; it stops at the first that fails."""

    STATIC = "static rules"
    COMPILE = "compile"
    SANITIZE = "sanitize"
    CORRECTNESS = "correctness"
    ALLCLOSE = "mx.allclose"
    DETERMINISM = "determinism"
    COVERAGE = "coverage"
    COUNT = "count"
    TIMING = "timing"
    HIDDEN = "hidden gate"
    CONFIRMATION = "confirmation"

    @property
    def is_closed(self) -> bool:
        """True where no reason of a failure may be told: it would give hidden cases away."""
        return self in (Stage.HIDDEN, Stage.CONFIRMATION)

    @property
    def claim(self) -> str:
        """What holds of a program that has passed the stage."""
        return _CLAIMS[self]


_CLAIMS = {
    Stage.STATIC: "the text breaks no static rule: no includes but Metal's own, no inline "
    "assembly, no words of the host, no loop that cannot end, no type or parameter redefined",
    Stage.COMPILE: "it compiles",
    Stage.SANITIZE: "no access out of bounds, no race, no divergent barrier, no uninitialised read",
    Stage.CORRECTNESS: "every element is within what rounding explains of a NumPy float64 oracle",
    Stage.ALLCLOSE: "mx.allclose holds beside MLX's own answer at the dtype's tolerance",
    Stage.DETERMINISM: "the same bits on every run",
    Stage.COVERAGE: "both sides of every condition on loaded data are right, or taken by no input",
    Stage.COUNT: "what it moves and computes was counted on the simulator",
    Stage.TIMING: "faster than eager MLX, mx.compile and mx.fast",
    Stage.HIDDEN: "right on shapes, seeds and distributions that the search never saw",
    Stage.CONFIRMATION: "confirmed in a fresh process with fresh seeds",
}


AT_SHAPE = ", for inputs "
"""Before the shape of a case, where a summary names one that is not the task's own."""


class StageResult(Record):
    """One step: whether it held, in what time, with one sentence for a person."""

    stage: Stage
    passed: bool
    summary: str
    duration_s: float = 0.0


class OutputAccuracy(Record):
    """The worst errors seen on one output over all visible cases."""

    output: int
    maximum_absolute: float
    maximum_relative: float
    row_relative: float
    """Largest row-wise error norm over the row's own norm, against float64."""
    reference_row_relative: float
    """The same for MLX itself, on the same inputs."""
    bound: float


class InputValue(Record):
    """What an input of a case holds at one place."""

    input: int
    index: tuple[int, ...]
    value: float


class Mismatch(Record):
    """Where a wrong answer is wrong, in words, at the smallest shape that shows it."""

    output: int
    words: str
    """Such as `the last 3 columns of every row`."""
    shapes: tuple[str, ...]
    case: str
    expected: float | None = None
    found: float | None = None
    index: tuple[int, ...] = ()
    inputs: tuple[InputValue, ...] = ()
    """What inputs of the output's shape, or broadcast to it, hold at the same place; of rows, what
    stands where the output points or should point, and the first that is no finite number."""


class Samples(Record):
    """Raw timings of one arm, in nanoseconds per launch, in the order they were taken.

    `candidate` is the candidate beside the fastest baseline; `eager`, `compile` and `fast` are
    baselines; `candidate vs eager` stands beside `eager`. Unmarked arms are of the screening. What
    was sampled later is marked: `candidate, test`, `compile, confirmation`. No arm occurs twice in
    an evaluation.
    """

    arm: str
    nanoseconds: tuple[float, ...]


class Conditions(Record):
    """What the machine was like while it measured."""

    copy_bytes_per_s: float
    """The bandwidth that a plain kernel reached, reads and writes counted."""
    floor_ns: float
    """What a launch takes that does nothing."""
    noise: float | None
    """Robust spread of the log ratios of equals (A/A), which widens the bar; None where a race only
    ordered candidates."""
    rejected_blocks: int = 0
    """Blocks thrown away because the machine changed its speed meanwhile."""


BASELINE_NAMES = {"eager": "eager MLX", "compile": "mx.compile", "fast": "mx.fast"}
"""What every page and all JSON call what a kernel is compared with."""
_BASELINES = {name: key for key, name in BASELINE_NAMES.items()}

_INTERVAL = ("lower", "upper", "confidence")


class Speedup(Record):
    """A paired comparison: above 1 the candidate is faster.

    A measurement has an interval and its confidence; a prediction, which is counted, has none.
    """

    baseline: Annotated[
        str,
        BeforeValidator(lambda told: _BASELINES.get(told, told)),
        PlainSerializer(lambda key: BASELINE_NAMES.get(key, key), when_used="json"),
    ]
    ratio: float
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    kind: Literal["measured", "predicted"]

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the interval; a prediction's ratio is both."""
        if self.lower is None or self.upper is None:
            return self.ratio, self.ratio
        return self.lower, self.upper

    @model_validator(mode="before")
    @classmethod
    def _read(cls, told: object) -> object:
        """Leave out the interval that a prediction was once given."""
        if isinstance(told, dict) and told.get("kind") == "predicted":
            return {name: told[name] for name in told if name not in _INTERVAL}
        return told


NOT_FOR_MACS = (
    "It is not for Macs: it was judged where a threadgroup may take more memory than their 32 KB, "
    "and no count shows that it takes less."
)


class Evaluation(Record):
    """The verdict on one program for one task on one device; timings aside, deterministic."""

    task: str
    """The task's fingerprint."""
    program: str
    """The program's id."""
    device: DeviceInfo
    status: Status
    summary: str
    """One sentence that a person or a repairer can use."""
    stages: tuple[StageResult, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    reports: tuple[SanitizerReport, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    case: str = ""
    """Names the visible case that it failed on, for `kernelwright verify --case`."""
    accuracy: tuple[OutputAccuracy, ...] = ()
    cases: int = 0
    """Visible cases that were run to the end."""
    counters: tuple[Counters, ...] = ()
    predicted_us: float | None = None
    """From counts and a chip's profile; never compared with a measurement."""
    bound: str = ""
    """What dominates the prediction, such as `memory`."""
    samples: tuple[Samples, ...] = ()
    speedups: tuple[Speedup, ...] = ()
    """Of the last race: a promoted program's are those of its confirmation, in a fresh process on
    fresh inputs, not those of the screening that chose it."""
    measured_us: float | None = None
    """Median time of a launch in that race, where the device measures time."""
    conditions: Conditions | None = None
    evaluator_version: int = EVALUATOR_VERSION
    duration_s: float = 0.0

    @property
    def fits_metal(self) -> bool:
        """False when a threadgroup takes more memory than a Mac's, or may where none was counted.

        What was judged under Metal's own limit fits.
        """
        if not self.device.exceeds_metal:
            return True
        taken = [c.threadgroup_bytes for c in self.counters]
        return bool(taken) and max(taken) <= METAL_THREADGROUP_BYTES

    @property
    def taken_us(self) -> float | None:
        """Return microseconds of a call, measured or else predicted; None where neither is."""
        return self.measured_us or self.predicted_us

    @property
    def least_speedup(self) -> Speedup | None:
        """Return the comparison with MLX's best, measured or else predicted; None without one."""
        for kind in ("measured", "predicted"):
            if found := [s for s in self.speedups if s.kind == kind]:
                # What mx.compile leaves as it is, eager MLX does as fast.
                return min(found, key=lambda s: (s.ratio, s.baseline == "eager"))
        return None

    @property
    def beats_mlx(self) -> bool:
        """False when MLX's best was measured, or else is predicted, to be as fast or faster.

        Such a kernel is not served, exported or reported as a gain; `evaluator.gain` has the
        figures.
        """
        least = self.least_speedup
        return least is None or least.ratio > LEAST_GAIN

    @property
    def is_correct(self) -> bool:
        """True when every correctness stage held."""
        return self.status in (Status.CORRECT, Status.PROMOTED)

    @property
    def has_met_hidden_gate(self) -> bool:
        """True when cases that nobody has seen have spoken, for or against."""
        return any(result.stage is Stage.HIDDEN for result in self.stages)

    @property
    def has_passed_hidden_gate(self) -> bool:
        """True when cases that nobody has seen were right too, which an export asks for."""
        return any(result.stage is Stage.HIDDEN and result.passed for result in self.stages)
