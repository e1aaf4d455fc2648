"""What a kernel gains over MLX at its best, and on which chip: one rule for every page."""

from typing import Literal

from pydantic import computed_field, model_validator

from kernelwright.errors import InputError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import BASELINE_NAMES, LEAST_GAIN, Evaluation, Speedup
from kernelwright.evaluator.speed.predicted_time import PredictedTime, speedups_of
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import ChipProfile, caveat_of, find_profile


class Gain(Record):
    """MLX's time at its best and a kernel's; a ratio above 1 is faster.

    Where no time is known, a ratio of bytes stands in for it.
    """

    kind: Literal["measured", "predicted", "traffic"]
    baseline: str
    """The fastest of eager MLX, `mx.compile` and `mx.fast`."""
    chip: str
    ratio: float
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    kernel_us: float | None = None
    """The kernel's time; None where only bytes are known."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mlx_us(self) -> float | None:
        """MLX's time at its best: the kernel's, times the paired ratio."""
        return None if self.kernel_us is None else self.kernel_us * self.ratio

    @model_validator(mode="before")
    @classmethod
    def _read(cls, told: object) -> object:
        """Leave out what follows from the rest, as JSON tells it."""
        if isinstance(told, dict):
            return {name: value for name, value in told.items() if name != "mlx_us"}
        return told

    @property
    def mlx_time(self) -> str:
        """MLX's time for people, such as `~9.30 µs`; a dash where it is not known."""
        return self._time(self.mlx_us)

    @property
    def kernel_time(self) -> str:
        """The kernel's time for people."""
        return self._time(self.kernel_us)

    def _time(self, microseconds: float | None) -> str:
        if microseconds is None:
            return "–"
        return f"{'' if self.kind == 'measured' else '~'}{in_microseconds(microseconds)}"

    @property
    def beats_mlx(self) -> bool:
        """True when it is more than what rounding to percents would show as nothing."""
        return self.ratio > LEAST_GAIN

    @property
    def saved(self) -> float:
        """Return the share of the baseline that is gone; negative for a loss."""
        return 1 - 1 / self.ratio if self.ratio else 0.0

    @property
    def times(self) -> str:
        """The ratio as every page shows it, such as `1.48×`, or `~1.48×` where it is predicted."""
        return f"{'' if self.kind == 'measured' else '~'}{self.ratio:.2f}×"

    @property
    def with_interval(self) -> str:
        """The ratio and, where it was measured, its interval."""
        if self.kind != "measured" or self.lower is None or self.upper is None:
            return self.times
        return f"{self.times} [{self.lower:.2f}, {self.upper:.2f}]"

    @property
    def words(self) -> str:
        """Say it in a few words that keep measured and predicted apart."""
        if self.kind == "traffic":
            return f"{self.times} fewer bytes than {self.baseline} (counted, not timed)"
        confidence = ""
        if self.kind == "measured" and self.confidence is not None:
            confidence = f" at {self.confidence:.0%}"
        return f"{self.with_interval}{confidence} over {self.baseline} on {self.chip} ({self.how})"

    @property
    def how(self) -> str:
        """How the figure is known, with what a prediction for its chip rests on."""
        return f"{self.kind}; {self.caveat}" if self.caveat else self.kind

    @property
    def caveat(self) -> str:
        """What has to be said beside a prediction for the chip; empty where nothing has to."""
        return caveat_of([self.chip]) if self.kind == "predicted" else ""


def in_microseconds(microseconds: float) -> str:
    """Render a kernel's time, such as `12.4 µs` or `1.30 ms`."""
    if microseconds >= 999.5:
        return f"{three_digits(microseconds / 1000)} ms"
    return f"{three_digits(microseconds)} µs"


def three_digits(value: float) -> str:
    """Render a figure with three digits."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def gain_of(evaluation: Evaluation, graph: Graph, chip: str | None = None) -> Gain:
    """Compare with the strongest baseline that was measured, else predicted, else by bytes.

    Args:
        evaluation: Of a correct program.
        graph: The task's.
        chip: Whose time is predicted; a measurement on another chip gives way to it.

    Raises:
        InputError: the chip is not known.
    """
    least = evaluation.least_speedup
    if chip is not None and not _is_of(evaluation, least, find_profile(chip)):
        # Only some verdicts need the rules of planning, which take long to import.
        from kernelwright.evaluator.predicted_gain import predicted_gain

        predicted = predicted_gain(evaluation, graph, chip)
        if predicted is not None:
            return predicted
    if least is None:
        from kernelwright.evaluator.predicted_gain import gain_without_speedup

        return gain_without_speedup(evaluation, graph)
    is_measured = least.kind == "measured"
    return Gain(
        kind=least.kind,
        baseline=BASELINE_NAMES.get(least.baseline, least.baseline),
        chip=evaluation.device.chip if is_measured else predicted_chip(evaluation.device),
        ratio=least.ratio,
        lower=least.lower,
        upper=least.upper,
        confidence=least.confidence,
        kernel_us=evaluation.measured_us if is_measured else evaluation.predicted_us,
    )


def gain_between(time: PredictedTime, baselines: dict[str, PredictedTime], chip: str) -> Gain:
    """Compare a predicted time with the shortest prediction of what MLX does."""
    least = min(speedups_of(time, baselines), key=lambda s: (s.ratio, s.baseline == "eager"))
    return Gain(
        kind="predicted",
        baseline=BASELINE_NAMES[least.baseline],
        chip=chip,
        ratio=least.ratio,
        kernel_us=time.microseconds,
    )


def predicted_chip(device: DeviceInfo, config: EvaluatorConfig | None = None) -> str:
    """Return whose times are predicted where candidates run on a device."""
    if device.measures_time and (own := _known_profile(device.bare_chip)):
        return own.name
    return (config or _DEFAULT).chip_for(device)


_DEFAULT = EvaluatorConfig(secret="unused")


def _is_of(evaluation: Evaluation, least: Speedup | None, profile: ChipProfile) -> bool:
    """Say whether a verdict's own figures are of a chip already."""
    if least is not None and least.kind == "measured":
        return _known_profile(evaluation.device.bare_chip) == profile
    return predicted_chip(evaluation.device) == profile.name


def _known_profile(chip: str) -> ChipProfile | None:
    try:
        return find_profile(chip)
    except InputError:
        return None
