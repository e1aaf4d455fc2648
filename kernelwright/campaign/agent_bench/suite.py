"""The tasks of the yardstick, level by level."""

from collections.abc import Sequence

from kernelwright.campaign.agent_bench import (  # noqa: F401
    elementwise,
    neighbours,
    phases,
    rows,
)
from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.task import BenchTask, registered
from kernelwright.errors import InputError


def bench_tasks(names: Sequence[str] = (), levels: Sequence[Level] = ()) -> tuple[BenchTask, ...]:
    """Return the tasks, level by level; only some names or levels where any are given.

    Raises:
        InputError: there is no task of a name.
    """
    tasks = sorted(registered(), key=lambda task: list(Level).index(task.level))
    if unknown := sorted(set(names) - {task.name for task in tasks}):
        listed = ", ".join(task.name for task in tasks)
        raise InputError(f"expected tasks of the yardstick ({listed}), found {unknown[0]!r}.")
    return tuple(
        task
        for task in tasks
        if (not names or task.name in names) and (not levels or task.level in levels)
    )
