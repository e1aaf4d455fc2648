"""What the store answers; each method is one transaction that writes nothing."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from kernelwright.errors import BlockedError
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import (
    machine,
    serving,
    standing,
    tuning,
    verdict,
    wanting,
)
from kernelwright.store.database_error import translated
from kernelwright.store.location import label_of
from kernelwright.store.machine import MachineTrial
from kernelwright.store.queries import campaign as campaign_queries
from kernelwright.store.queries import candidate as candidate_queries
from kernelwright.store.queries import champion as champion_queries
from kernelwright.store.queries import prefix as prefixes
from kernelwright.store.queries import row as rows
from kernelwright.store.record import (
    Campaign,
    Candidate,
    CandidateDetail,
    Champion,
    Environment,
    HistoryEntry,
    KnownEvaluation,
    LoggedEvent,
    StoreStatistics,
    Wanted,
)
from kernelwright.store.retry import OnBlocked, Outage
from kernelwright.store.schema import SCHEMA_VERSION
from kernelwright.store.serving import ServedProgram
from kernelwright.store.standing import Standing
from kernelwright.store.verdict import Verdict


class StoreReader:
    """The reading half of `KernelStore`."""

    url: str
    on_blocked: OnBlocked
    _engine: Engine

    @property
    def label(self) -> str:
        """The store's place for people; never a password."""
        return label_of(self.url)

    def known(
        self, task_id: str, program_id: str, environment: Environment, *, evaluator_version: int
    ) -> KnownEvaluation | None:
        """Return the newest verdict on a program for a task in an environment, if there is one."""
        id_ = Candidate.id_of(task_id, program_id)
        return self.known_of([id_], environment, evaluator_version=evaluator_version).get(id_)

    def known_of(
        self,
        candidate_ids: Sequence[str],
        environment: Environment,
        *,
        evaluator_version: int,
        unconfirmed: bool = False,
    ) -> dict[str, KnownEvaluation]:
        """Return the newest verdict in an environment on each candidate that has one.

        Where `unconfirmed`, it is the newest that met no hidden case, if there is such a one.
        """
        with self._read() as session:
            return candidate_queries.known_of(
                session,
                candidate_ids,
                environment_id=environment.id,
                evaluator_version=evaluator_version,
                unconfirmed=unconfirmed,
            )

    def tried(self, task_id: str) -> int:
        """Return how many candidates of a task there are, over all campaigns and verdicts."""
        with self._read() as session:
            return candidate_queries.tried(session, task_id)

    def tuned(
        self, task: Task, *, signature: str, device: DeviceName, chip: str
    ) -> tuple[str, ...]:
        """Return the schedules of champions with the same ops, inputs and chip, its own first."""
        with self._read() as session:
            return tuning.tuned(session, task, signature=signature, device=device, chip=chip)

    def best(
        self,
        *,
        op: str | None = None,
        dtype: str | None = None,
        shape: str | None = None,
        device: DeviceName | None = None,
        limit: int = 50,
        by_speedup: bool = False,
    ) -> tuple[Champion, ...]:
        """Return champions, newest first, or those that gain most.

        `op` is an op in the task or a word of its name; `dtype` any name of the first
        output's dtype; `shape` a part of the inputs' types, such as `2048,4096`.
        """
        tasks = champion_queries.TaskFilter(
            op=op,
            dtype=Dtype.parse(dtype).value if dtype else None,
            shape=shape.replace(" ", "") if shape else None,
        )
        with self._read() as session:
            return champion_queries.best(
                session, tasks, device=device, limit=limit, by_speedup=by_speedup
            )

    def champions(
        self, task_ids: Collection[str], *, device: DeviceName, chip: str
    ) -> tuple[Champion, ...]:
        """Return the champions of some tasks on one chip, whatever their freshness."""
        with self._read() as session:
            return champion_queries.champions_of(session, task_ids, device=device, chip=chip)

    def served(
        self, task_ids: Collection[str], *, device: DeviceName, chip: str
    ) -> dict[str, ServedProgram]:
        """Return the fresh champion of each task that has one on a chip, with its program."""
        with self._read() as session:
            return serving.served(session, task_ids, device=device, chip=chip)

    def from_elsewhere(
        self, task_ids: Collection[str], *, device: DeviceName, chip: str
    ) -> dict[str, tuple[ServedProgram, ...]]:
        """Return each task's fresh champions of other chips, to be tried on this one."""
        with self._read() as session:
            return machine.from_elsewhere(session, task_ids, device=device, chip=chip)

    def machine_trials(
        self, task_ids: Collection[str], *, device: DeviceName, chip: str, runtime: str
    ) -> tuple[MachineTrial, ...]:
        """Return which champions from elsewhere were tried on a machine, and what came of it."""
        with self._read() as session:
            return machine.machine_trials(
                session, task_ids, device=device, chip=chip, runtime=runtime
            )

    def verdicts(self, evaluation_ids: Sequence[str]) -> dict[str, Verdict]:
        """Return evaluations with their tasks' graphs, by the evaluations' ids."""
        with self._read() as session:
            return verdict.verdicts(session, evaluation_ids)

    def wanted(self, *, limit: int = 50) -> tuple[Wanted, ...]:
        """Return the wanted list, the most frequently called first."""
        with self._read() as session:
            return wanting.wanted(session, limit=limit)

    def show(self, prefix: str) -> CandidateDetail:
        """Return everything about the candidate whose id begins with `prefix`."""
        with self._read() as session:
            return candidate_queries.detail(session, prefixes.resolve_candidate(session, prefix))

    def candidate_or_campaign(self, prefix: str) -> CandidateDetail | Campaign:
        """Return the one candidate whose id begins with `prefix`, or else the one campaign.

        Raises:
            InputError: none or several do.
        """
        with self._read() as session:
            noun, found = prefixes.resolve_candidate_or_campaign(session, prefix)
            if noun == "candidate":
                return candidate_queries.detail(session, found)
            return campaign_queries.campaign(session, found)

    def history(
        self,
        *,
        campaign: str | None = None,
        task: str | None = None,
        candidate: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> tuple[HistoryEntry, ...]:
        """Return trials, newest first; ids may be prefixes."""
        with self._read() as session:
            return candidate_queries.history(
                session,
                campaign_id=prefixes.resolve_campaign(session, campaign) if campaign else None,
                task_id=prefixes.resolve_task(session, task) if task else None,
                candidate_id=prefixes.resolve_candidate(session, candidate) if candidate else None,
                status=status,
                limit=limit,
            )

    def campaigns(self, *, limit: int = 20) -> tuple[Campaign, ...]:
        """Return campaigns, newest first."""
        with self._read() as session:
            return campaign_queries.campaigns(session, limit)

    def campaign(self, campaign_id: str) -> Campaign:
        """Return the one campaign whose id begins like this.

        Raises:
            InputError: none or several do.
        """
        with self._read() as session:
            return campaign_queries.campaign(
                session, prefixes.resolve_campaign(session, campaign_id)
            )

    def runs(self, root_id: str) -> tuple[Campaign, ...]:
        """Return the runs of a campaign, the first one first."""
        with self._read() as session:
            return campaign_queries.runs(session, root_id)

    def events(
        self, campaign_id: str, *, after: int = 0, kinds: Collection[str] = ()
    ) -> tuple[LoggedEvent, ...]:
        """Return a run's log, oldest first; only what came `after` an event's id, of some kinds."""
        with self._read() as session:
            return campaign_queries.events(session, campaign_id, after, kinds)

    def statistics(self) -> StoreStatistics:
        """Count what the store holds."""
        with self._read() as session:
            return StoreStatistics(
                url=self.label,
                schema_version=SCHEMA_VERSION,
                rows=rows.row_counts(session),
                size_bytes=self._size_bytes(),
            )

    def standings(self) -> tuple[Standing, ...]:
        """Return every champion with where its verdict holds."""
        with self._read() as session:
            return standing.standings(session)

    def _size_bytes(self) -> int | None:
        database = self._engine.url.database
        if self._engine.dialect.name != "sqlite" or not database:
            return None
        files = (Path(database + suffix) for suffix in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @contextmanager
    def _read(self) -> Iterator[Session]:
        with translated(self.url), Session(self._engine) as session:
            self._reach(session)
            yield session

    def _reach(self, session: Session) -> None:
        """Connect; where a run waits for its store, wait for a server that is away, too."""
        outage = Outage()
        while True:
            try:
                with translated(self.url):
                    session.connection()
            except BlockedError as e:
                session.rollback()
                self.on_blocked(outage.met(e))
            else:
                return
