"""How many judges a device may have, and whether they run in processes of their own."""

from collections.abc import Callable

from kernelwright.campaign.judging.job_judge import EvaluatorJobJudge
from kernelwright.campaign.judging.judge_process import ProcessJobJudge
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.metal.device.base import DeviceName

_FEWEST_APART = 3
OwnJobJudge = EvaluatorJobJudge | ProcessJobJudge
"""A judge of this machine."""


def job_judges_on(
    device: DeviceName, *, jobs: int = 1, config: EvaluatorConfig | None = None
) -> Callable[[], OwnJobJudge]:
    """Return what makes judges on a device, of which up to `jobs` judge at once.

    Many have a process each: cases, references and comparisons are Python's work to a third, of
    which one process does one at a time. Few are in this process and draw each task's cases once.
    """
    # A GPU that shares memory and power with the cores has one judge.
    if jobs >= _FEWEST_APART and device != "metal":
        return lambda: ProcessJobJudge(device, config, jobs=jobs)
    suites = SuiteCache()
    return lambda: EvaluatorJobJudge(device, suites, config)
