"""Finds the workers of a fleet that a campaign is for, and opens an executor over them."""

from kernelwright.campaign.execution.executor import Executor, ExecutorFactory
from kernelwright.campaign.execution.retry_policy import DeviceCare, Rest
from kernelwright.campaign.fleet.fleet_executor import FleetExecutor
from kernelwright.campaign.fleet.job import job_version
from kernelwright.campaign.fleet.job_queue import DEAD_AFTER_S, prepare_queue
from kernelwright.errors import DeviceError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo, DeviceName
from kernelwright.store import KernelStore
from kernelwright.store.fleet import FleetWorker

_WAIT_S = 2.0


class FleetExecutors(ExecutorFactory):
    """Workers on any machine that reaches the store."""

    def __init__(
        self,
        store: KernelStore,
        device: DeviceName,
        *,
        chip: str | None = None,
        threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        """Ask for workers of a device; of a `chip`, else of that which most of them have."""
        self._store = store
        self._device = device
        self._chip = chip
        self._config = EvaluatorConfig(threadgroup_bytes=threadgroup_bytes)
        self._dead_after_s = dead_after_s

    def open(self, jobs: int, rest: Rest, care: DeviceCare) -> Executor:
        """Wait for the first worker; later ones may come and go.

        Raises:
            DeviceError: nobody came before the run was to stop.
            InputError: the store is no PostgreSQL.
        """
        prepare_queue(self._store.url)
        while not (found := self._workers()):
            if rest(_WAIT_S, self._why_none()):
                raise DeviceError(self._why_none())
        return FleetExecutor(
            self._store, self._config, found[0], width=jobs, dead_after_s=self._dead_after_s
        )

    def _workers(self) -> list[FleetWorker]:
        """Return the workers of one chip."""
        fitting = [w for w in self._store.fleet.workers() if self._fits(w)]
        slots: dict[str, int] = {}
        for worker in fitting:
            slots[worker.queue] = slots.get(worker.queue, 0) + worker.jobs
        most = max(slots, key=lambda name: slots[name], default="")
        return [worker for worker in fitting if worker.queue == most]

    def _fits(self, worker: FleetWorker) -> bool:
        device = worker.environment.device
        return (
            worker.version == job_version()
            and device.name == self._device
            and (self._chip is None or _is_called(device, self._chip))
        )

    def _why_none(self) -> str:
        wanted = f"{self._device} {self._chip or ''}".strip()
        chips = {w.environment.device.chip for w in self._store.fleet.workers()}
        there = f"; workers have {', '.join(sorted(chips))}" if chips and self._chip else ""
        others = {w.version for w in self._store.fleet.workers()} - {job_version()}
        older = f"; there are workers of {', '.join(sorted(others))} only" if others else ""
        return (
            f"no worker of version {job_version()} serves {wanted}{older}{there}; "
            "start one with: kernelwright worker --database URL"
        )


def _is_called(device: DeviceInfo, chip: str) -> bool:
    return chip.casefold() in (device.chip.casefold(), device.bare_chip.casefold())
