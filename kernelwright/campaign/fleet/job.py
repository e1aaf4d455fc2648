"""A job of a fleet and its verdict: a judge's, with where they belong."""

from importlib.metadata import version

from kernelwright.campaign.judging.job import JudgeAnswer, JudgeJob
from kernelwright.digest import digest
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.store import Environment

_LONGEST_CHIP = 80


def job_version() -> str:
    """Return what a worker must be to judge this program's jobs: another judges differently."""
    return f"{version('kernelwright')}-e{EVALUATOR_VERSION}"


def queue_of(device: DeviceInfo, of_version: str) -> str:
    """Return the queue of the machines with a chip; those of another version have another."""
    chip = device.chip
    if len(chip) > _LONGEST_CHIP:
        chip = f"{chip[: _LONGEST_CHIP - 9]}-{digest(chip)[:8]}"
    return f"{device.name}/{chip}/{of_version}"


class FleetJob(JudgeJob):
    """A judge's job in a queue."""

    id: str
    version: str


class FleetVerdict(JudgeAnswer):
    """What a worker answers."""

    environment: Environment
    """The worker's own."""
    worker: str
    """Where it was judged, for people."""


def job_id(queue: str, task: Task, program: Program, *, confirms: bool) -> str:
    """Return the id of a job: the same work for the same chip is one job."""
    return digest(queue, task.fingerprint, program.id, "confirm" if confirms else "evaluate")
