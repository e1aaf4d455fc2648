"""The queue of one chip in PostgreSQL, as the campaign sees it that hands jobs over."""

from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING

from kernelwright.campaign.fleet.job import FleetJob
from kernelwright.campaign.fleet.job_queue import TASK
from kernelwright.store.fleet import FleetStore

if TYPE_CHECKING:
    from procrastinate import App


class ChipQueue:
    """Queues jobs once, however often a campaign died over them, and finds those that were lost."""

    def __init__(self, app: "App", name: str, store: FleetStore) -> None:
        """Use an open application's queue with this name; `store` knows who has which job."""
        self._app = app
        self._name = name
        self._store = store

    async def enqueue(self, job: FleetJob) -> int | None:
        """Return the number under which a job waits or runs; None where its verdict is there."""
        from procrastinate.exceptions import AlreadyEnqueued

        known = self._store.hand(job.id)
        if known is not None and known.verdict is not None:
            return None
        if known is not None and known.queued_id is not None and await self._lives(known.queued_id):
            return known.queued_id
        deferrer = self._app.configure_task(
            name=TASK, queue=self._name, queueing_lock=job.id, allow_unknown=True
        )
        number: int | None
        try:
            number = await deferrer.defer_async(job=job.model_dump(mode="json"))
        except AlreadyEnqueued:
            # Queued by a run that died before it had noted the number.
            number = await self._number_of(job.id)
        if number is not None:
            self._store.queued(job.id, number)
        return number

    async def _lives(self, number: int) -> bool:
        from procrastinate.exceptions import NoResult
        from procrastinate.jobs import Status

        try:
            status = await self._app.job_manager.get_job_status_async(number)
        except (NoResult, KeyError, TypeError):
            return False
        return status in (Status.TODO, Status.DOING)

    async def _number_of(self, id_: str) -> int | None:
        found = await self._app.job_manager.list_jobs_async(queue=self._name, queueing_lock=id_)
        return next((job.id for job in found), None)

    async def numbers(self) -> set[int | None]:
        """Return the numbers of all jobs that are there."""
        found = await self._app.job_manager.list_jobs_async(queue=self._name, task=TASK)
        return {job.id for job in found}

    async def stalled(self, dead_after_s: float) -> AsyncIterator[tuple[int, str]]:
        """Yield number and id of each job whose worker gives no sign of life any more."""
        found = await self._app.job_manager.get_stalled_jobs(
            queue=self._name, task_name=TASK, seconds_since_heartbeat=dead_after_s
        )
        for job in found:
            sent = job.task_kwargs.get("job")
            if job.id is not None and isinstance(sent, dict):
                yield job.id, str(sent.get("id"))

    async def bury(self, number: int) -> None:
        """Take a job out for good whose worker died."""
        from procrastinate.jobs import Status

        await self._app.job_manager.finish_job_by_id_async(number, Status.FAILED, delete_job=True)

    async def withdraw(self, jobs: Collection[tuple[str, int]]) -> None:
        """Take back what no worker has begun, of these ids and numbers."""
        for id_, number in jobs:
            if await self._app.job_manager.cancel_job_by_id_async(number, delete_job=True):
                self._store.forget(id_)
