"""The part of the store that a fleet is given: its workers, and verdicts on their way back."""

import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import timedelta

from sqlalchemy import Update, delete, func, select, update
from sqlalchemy.orm import Session

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.store.clock import now
from kernelwright.store.record import Environment
from kernelwright.store.retry import OnBlocked, RetryingWriter, give_up, retry_when_blocked
from kernelwright.store.schema.fleet import FleetJobRow, FleetWorkerRow
from kernelwright.store.upsert import insert_once

Transaction = Callable[[], AbstractContextManager[Session]]
_ALIVE = timedelta(seconds=60)
_ABANDONED = timedelta(days=7)


class FleetWorker(Record):
    """A process that evaluates for a fleet."""

    id: str
    queue: str
    version: str
    """Of the jobs that it can judge."""
    environment: Environment
    host: str
    process: int
    jobs: int
    """How many it evaluates at once."""

    @property
    def label(self) -> str:
        """Where it is, for people."""
        return f"{self.host}:{self.process}"


class HandedJob(Record):
    """A job that was handed to a fleet before."""

    queued_id: int | None
    verdict: str | None


class FleetStore(RetryingWriter):
    """Who works, and what came of it; reached as `KernelStore.fleet`, on PostgreSQL only.

    Moments are the database's own, so that no two machines' clocks are compared.
    """

    def __init__(
        self, read: Transaction, write: Transaction, on_blocked: OnBlocked = give_up
    ) -> None:
        self.on_blocked = on_blocked
        self._read = read
        self._write = write

    @retry_when_blocked
    def announce(self, worker: FleetWorker) -> None:
        """Enter a worker in the list; forget those that went long ago."""
        with self._write() as session:
            _check(session)
            session.execute(
                delete(FleetWorkerRow).where(FleetWorkerRow.seen_at < func.now() - _ABANDONED)
            )
            row = FleetWorkerRow(
                **worker.model_dump(exclude={"environment"}),
                environment=worker.environment.model_dump_json(),
                started_at=now(),
                seen_at=now(),
            )
            session.merge(row)
            session.flush()
            session.execute(_seen(worker.id))

    def beat(self, worker_id: str) -> None:
        """Give a worker's sign of life."""
        with self._write() as session:
            session.execute(_seen(worker_id))

    @retry_when_blocked
    def leave(self, worker_id: str) -> None:
        """Take a worker off the list."""
        with self._write() as session:
            session.execute(delete(FleetWorkerRow).where(FleetWorkerRow.id == worker_id))

    def workers(self, alive: timedelta = _ALIVE) -> tuple[FleetWorker, ...]:
        """Return the workers that gave a sign of life lately, the longest at work first."""
        with self._read() as session:
            _check(session)
            rows = session.scalars(
                select(FleetWorkerRow)
                .where(FleetWorkerRow.seen_at > func.now() - alive)
                .order_by(FleetWorkerRow.started_at, FleetWorkerRow.id)
            )
            return tuple(_worker(row) for row in rows)

    @retry_when_blocked
    def hand(self, job_id: str) -> HandedJob | None:
        """Note that a job is about to be queued; return what is known where it was before."""
        with self._write() as session:
            if insert_once(session, FleetJobRow, id=job_id, created_at=now()):
                return None
            row = session.get_one(FleetJobRow, job_id, populate_existing=True)
            return HandedJob(queued_id=row.queued_id, verdict=row.verdict)

    @retry_when_blocked
    def queued(self, job_id: str, queued_id: int) -> None:
        """Note a job's number in the queue."""
        with self._write() as session:
            session.execute(
                update(FleetJobRow).where(FleetJobRow.id == job_id).values(queued_id=queued_id)
            )

    @retry_when_blocked
    def began(self, job_id: str, worker: str) -> None:
        """Note who evaluates a job."""
        with self._write() as session:
            session.execute(
                update(FleetJobRow).where(FleetJobRow.id == job_id).values(worker=worker)
            )

    @retry_when_blocked
    def finish(self, job_id: str, verdict: str) -> None:
        """Write a job's verdict; one that nobody waits for any more is dropped."""
        with self._write() as session:
            session.execute(
                update(FleetJobRow).where(FleetJobRow.id == job_id).values(verdict=verdict)
            )

    @retry_when_blocked
    def collect(self, job_ids: Collection[str]) -> dict[str, str]:
        """Return the verdicts that are there, each once: their jobs are forgotten."""
        with self._write() as session:
            found = session.execute(
                delete(FleetJobRow)
                .where(FleetJobRow.id.in_(job_ids), FleetJobRow.verdict.is_not(None))
                .returning(FleetJobRow.id, FleetJobRow.verdict)
                .execution_options(synchronize_session=False)
            )
            return {job_id: verdict for job_id, verdict in found if verdict is not None}

    @retry_when_blocked
    def forget(self, job_id: str) -> str:
        """Forget a job; return who had begun it, or nothing."""
        with self._write() as session:
            found = session.execute(
                delete(FleetJobRow)
                .where(FleetJobRow.id == job_id)
                .returning(FleetJobRow.worker)
                .execution_options(synchronize_session=False)
            ).scalar()
            return found or ""


def _seen(worker_id: str) -> Update:
    return update(FleetWorkerRow).where(FleetWorkerRow.id == worker_id).values(seen_at=func.now())


def _worker(row: FleetWorkerRow) -> FleetWorker:
    names = set(FleetWorker.model_fields) - {"environment"}
    return FleetWorker.model_validate(
        {name: getattr(row, name) for name in names} | {"environment": json.loads(row.environment)}
    )


def _check(session: Session) -> None:
    if session.get_bind().dialect.name != "postgresql":
        raise InputError(
            "a fleet shares a PostgreSQL store, and this one is a file; start one with: "
            "kernelwright fleet up, or give --store postgresql://user@host/database"
        )
