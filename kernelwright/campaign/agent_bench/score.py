"""What the yardstick finds: a row for each task and variant, and their sums as one table."""

import math
from collections.abc import Iterable, Sequence

from pydantic import computed_field

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.variant import Variant
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record

_CLEARLY = 0.98
"""A time counts as beaten where no more than this share of it is left."""


class TaskScore(Record):
    """How one variant fared with one task."""

    task: str
    level: Level
    variant: Variant
    solved: bool
    """True where a right program was found: one of its own authors, the models or the offline
    agents, or one at the floor, beside which no model is asked."""
    at_floor: bool = False
    """True where every champion is at its task's floor, so that nothing is left to gain."""
    author: str = ""
    """Who wrote the champion; empty where there is none."""
    best_us: float
    """The whole function with its champions, MLX for the rest; MLX's own time without any."""
    kind: str
    """`measured` or `predicted`: how that time is known."""
    floor_us: float | None
    tokens: int = 0
    dollars: float = 0.0
    assumed_dollars: float = 0.0
    """What calls without a bill are counted at, a part of that."""
    seconds: float = 0.0
    evaluations: int = 0
    ended: str = ""

    @property
    def times_floor(self) -> float | None:
        """How many times the floor is taken; 1 is as fast as any right kernel."""
        return self.best_us / self.floor_us if self.floor_us else None

    def beats(self, other: "TaskScore | None") -> bool:
        """Say whether a model's program is clearly faster than what another variant ended with."""
        is_own = bool(self.author) and self.author != "offline"
        return is_own and other is not None and self.best_us <= other.best_us * _CLEARLY


class LevelScore(Record):
    """A variant's sums over some tasks."""

    variant: Variant
    level: str
    """A level's name, or `all`."""
    tasks: int
    solved: int
    at_floor: int
    beats_offline: int
    times_floor: float | None
    """The geometric mean of how many times the floor the best programs take."""
    offline_times_floor: float | None
    tokens: int
    dollars: float
    assumed_dollars: float = 0.0
    minutes: float


class BenchReport(Record):
    """One run of the yardstick."""

    models: tuple[str, ...]
    device: DeviceInfo
    prompts: dict[str, str]
    """The versions of the prompts that were used, by role."""
    rows: tuple[TaskScore, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def table(self) -> tuple[LevelScore, ...]:
        """Return a line for each variant, and below it one for each level where there are more."""
        offline = {row.task: row for row in self.rows if row.variant is Variant.OFFLINE}
        lines: list[LevelScore] = []
        for variant in Variant:
            found = [row for row in self.rows if row.variant is variant]
            levels = list(dict.fromkeys(row.level for row in found))
            if found:
                lines.append(_summed(variant, "all", found, offline))
            for level in levels if len(levels) > 1 else ():
                of_level = [row for row in found if row.level == level]
                lines.append(_summed(variant, level, of_level, offline))
        return tuple(lines)


def _summed(
    variant: Variant, level: str, rows: Sequence[TaskScore], offline: dict[str, TaskScore]
) -> LevelScore:
    compared = [offline[row.task] for row in rows if row.task in offline]
    return LevelScore(
        variant=variant,
        level=level,
        tasks=len(rows),
        solved=sum(row.solved for row in rows),
        at_floor=sum(row.at_floor for row in rows),
        beats_offline=sum(row.beats(offline.get(row.task)) for row in rows),
        times_floor=_mean(row.times_floor for row in rows),
        offline_times_floor=_mean(row.times_floor for row in compared),
        tokens=sum(row.tokens for row in rows),
        dollars=sum(row.dollars for row in rows),
        assumed_dollars=sum(row.assumed_dollars for row in rows),
        minutes=sum(row.seconds for row in rows) / 60,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [math.log(value) for value in values if value]
    return math.exp(sum(known) / len(known)) if known else None
