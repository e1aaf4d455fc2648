"""The kernel store: what is remembered, in one database, behind plain methods."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy.orm import Session

from kernelwright.digest import digest
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import (
    backup,
    clock,
    machine,
    pruning,
    sync,
    wanting,
)
from kernelwright.store.browsing import BrowsingStore
from kernelwright.store.commands import campaign as campaign_commands
from kernelwright.store.commands import champion as champion_commands
from kernelwright.store.commands import leasing, trial
from kernelwright.store.commands import task as task_commands
from kernelwright.store.commands.leasing import Beat
from kernelwright.store.commands.trial import Announced, NewTrial
from kernelwright.store.connection import BUSY_TIMEOUT_S, connect, disconnect
from kernelwright.store.database_error import translated
from kernelwright.store.dialogue_store import DialogueStore
from kernelwright.store.fleet import FleetStore
from kernelwright.store.location import default_url, url_of
from kernelwright.store.machine import MachineTrial
from kernelwright.store.owner import begin_here, end_here, owner_name
from kernelwright.store.pruning import Pruned
from kernelwright.store.queries import campaign as campaign_queries
from kernelwright.store.reader import StoreReader
from kernelwright.store.record import (
    Campaign,
    CampaignState,
    Champion,
    Environment,
    Freshness,
    NewEvent,
    Rank,
    Trial,
    Wanted,
)
from kernelwright.store.retry import RetryingWriter, give_up, retry_when_blocked
from kernelwright.store.schema import EnvironmentRow
from kernelwright.store.sync import SharedChampion, Synced
from kernelwright.store.upsert import exclusive

LEASE = timedelta(minutes=10)


class KernelStore(StoreReader, RetryingWriter):
    """One database of kernels; a path, or any SQLAlchemy URL.

    Opening creates and migrates the database unless `must_exist`. Every method is one
    transaction, so a process may die between any two calls and nothing is half written.

    Raises:
        StoreError: from any method, when the database is missing, locked, full, damaged,
            foreign or newer; one sentence says which.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        must_exist: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.url = url_of(url) if url else default_url()
        self._engine = connect(self.url, create=not must_exist, busy_timeout_s=busy_timeout_s)
        self._writing_engine = self._engine.execution_options(writes=True)
        self.on_blocked = give_up
        self.dialogue = DialogueStore(self._read, self._write, lambda e: self.on_blocked(e))
        """Model calls, conversations, lessons and regression cases."""
        self.fleet = FleetStore(self._read, self._write, lambda e: self.on_blocked(e))
        """Workers of a fleet and verdicts on their way back."""
        self.browse = BrowsingStore(self._read)
        """Reads page by page, for screens."""

    def close(self) -> None:
        """Let go of the database."""
        disconnect(self._engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @retry_when_blocked
    def begin_campaign(
        self,
        *,
        name: str,
        spec: str,
        environment: Environment,
        continues: Callable[[Campaign], bool] = lambda run: False,
        root_id: str | None = None,
    ) -> Campaign:
        """Open a run owned by this process; `spec` is its settings as JSON.

        It belongs to the campaign `root_id`, else to that of the newest run which it `continues`
        unless that one finished, else it is the first of a campaign. Dead runs of the campaign
        end here; of another machine's, those are dead whose last sign of life is old.

        Raises:
            InputError: another process, or another thread of this one, runs the same campaign.
        """
        owner = owner_name()
        with self._write() as session:
            exclusive(session, "campaigns")
            root = root_id or campaign_queries.root_to_continue(session, name, continues)
            if root is not None:
                leasing.take_over(session, root_id=root, owner=owner)
            row = campaign_commands.add_campaign(
                session, name=name, spec=spec, environment=environment, owner=owner, root_id=root
            )
            begin_here(row.id)
            return campaign_queries.campaign_of(
                row, session.get_one(EnvironmentRow, environment.id)
            )

    @retry_when_blocked
    def end_campaign(
        self, campaign_id: str, state: CampaignState, *, elapsed_s: float | None = None
    ) -> None:
        """Close a campaign, unless another process has taken it up."""
        try:
            with self._write() as session:
                campaign_commands.end_campaign(session, campaign_id, state, elapsed_s)
        finally:
            end_here(campaign_id)

    def beat(self, campaign_id: str, *, elapsed_s: float, lease: timedelta = LEASE) -> bool:
        """Give a sign of life, renew leases; False when another process has taken the run up."""
        with self._write() as session:
            return leasing.beat(session, campaign_id, owner_name(), Beat(elapsed_s, lease))

    @retry_when_blocked
    def keep_task(
        self, task: Task, *, signature: str = "", campaign_id: str = "", function: str = ""
    ) -> None:
        """Write a task down before anything is tried for it; the same task is kept once.

        With a campaign, note for which of its functions the task is searched.
        """
        with self._write() as session:
            task_commands.add_task(session, task, signature)
            if campaign_id:
                campaign_commands.link_task(session, campaign_id, task.fingerprint, function)

    @retry_when_blocked
    def add_trial(
        self, new_trial: NewTrial, *, signature: str = "", event: NewEvent | None = None
    ) -> Trial:
        """Write down what is about to be evaluated, before it is; the same intent is one trial.

        `signature` describes the task in a word or two, such as `add + rms_norm`.
        """
        (added,) = self.add_trials([Announced(new_trial, signature, event)])
        return added

    @retry_when_blocked
    def add_trials(self, announced: Sequence[Announced]) -> tuple[Trial, ...]:
        """Write down several in one transaction; see `add_trial`."""
        with self._write() as session:
            for one in announced:
                self._log(session, one.new_trial.campaign_id, one.event)
            return tuple(
                campaign_queries.trial_of(trial.add_trial(session, one.new_trial, one.signature))
                for one in announced
            )

    @retry_when_blocked
    def lease(self, trial_id: str, *, duration: timedelta = LEASE) -> bool:
        """Take a trial for this process; False when it is done or others are at its candidate."""
        with self._write() as session:
            return trial.lease_trial(session, trial_id, owner_name(), duration.total_seconds())

    @retry_when_blocked
    def record(
        self,
        trial_id: str,
        evaluation: Evaluation,
        *,
        rank: Rank | None,
        environment: Environment | None = None,
        event: NewEvent | None = None,
    ) -> str:
        """Write an evaluation with its samples and end its trial, once; return its id.

        `rank` is None for what is not correct. The verdict holds in `environment`, by default in
        the campaign's own.
        """
        with self._write() as session:
            self._log_of(session, trial_id, event)
            return trial.finish_trial(session, trial_id, evaluation, rank, environment)

    @retry_when_blocked
    def begin_confirmation(self, trial_id: str, *, duration: timedelta = LEASE) -> bool:
        """Write down that a finished trial's candidate is about to be confirmed.

        False when another campaign is at it.
        """
        with self._write() as session:
            return trial.reopen_trial(session, trial_id, owner_name(), duration.total_seconds())

    @retry_when_blocked
    def confirm(
        self,
        trial_id: str,
        evaluation: Evaluation,
        *,
        rank: Rank | None,
        environment: Environment | None = None,
        event: NewEvent | None = None,
    ) -> str:
        """Write the verdict of a confirmation, and promote the candidate if it leads.

        `rank` is None for what did not survive. Returns the evaluation's id.
        """
        with self._write() as session:
            self._log_of(session, trial_id, event)
            return trial.finish_confirmation(session, trial_id, evaluation, rank, environment)

    @retry_when_blocked
    def promote(self, evaluation_id: str) -> None:
        """Promote the candidate of a confirmed evaluation if it leads its task."""
        with self._write() as session:
            champion_commands.promote(session, evaluation_id)

    @retry_when_blocked
    def reuse(self, trial_id: str, evaluation_id: str, *, event: NewEvent | None = None) -> None:
        """End a trial with an evaluation that the store held already."""
        with self._write() as session:
            self._log_of(session, trial_id, event)
            trial.reuse_evaluation(session, trial_id, evaluation_id)

    @retry_when_blocked
    def log(self, campaign_id: str, kind: str, body: str) -> None:
        """Append a line to a campaign's log."""
        with self._write() as session:
            campaign_commands.log_event(session, campaign_id, kind, body, owner_name())

    def record_machine_trial(self, trial: MachineTrial) -> None:
        """Remember what became of a champion from elsewhere on a machine."""
        with self._write() as session:
            machine.record_machine_trial(session, trial)

    def want(self, wanted: Sequence[Wanted]) -> None:
        """Add calls that no kernel could serve to the wanted list; counts add up."""
        origin = digest(platform.node(), self.label)
        with self._write() as session:
            wanting.want(session, wanted, origin=origin)

    @retry_when_blocked
    def settle(
        self, champion: Champion, freshness: Freshness, *, evaluation_id: str | None = None
    ) -> bool:
        """Mark a champion after a later verdict; False when it is one no longer."""
        with self._write() as session:
            return champion_commands.set_freshness(session, champion, freshness, evaluation_id)

    def backup(self, target: Path) -> int:
        """Copy the store to a new file while others use it; return its size in bytes.

        Raises:
            StoreError: the store is no SQLite file, or the target exists or cannot be written.
        """
        with translated(self.url):
            backup.copy(self.url, target)
        return target.expanduser().stat().st_size

    def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
        """Forget old timings and old failed candidates; champions and their ancestors stay."""
        size = self._size_bytes()
        with self._write() as session:
            pruned = pruning.prune(session, clock.now() - older_than, dry_run=dry_run)
        if dry_run or size is None:
            return pruned
        with translated(self.url), closing(self._engine.raw_connection()) as connection:
            # Deleted rows leave holes; only a rewritten file gives their space back.
            connection.cursor().execute("VACUUM")
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        freed = size - (self._size_bytes() or 0)
        return pruned.model_copy(update={"bytes_freed": max(freed, 0)})

    def push(
        self, target: "KernelStore", *, device: DeviceName | None = None, chip: str | None = None
    ) -> Synced:
        """Give another store the verified champions that lead there, with their verdicts.

        A champion holds on its chip alone, and takes no place of another chip's. It keeps its
        environment, samples and author; the same again copies nothing.
        """
        with self._read() as session:
            shared, unproven = sync.shared_champions(session, device=device, chip=chip)
        copied = tuple(one.candidate_id for one in shared if target.take(one))
        return Synced(
            source=self.label,
            target=target.label,
            copied=copied,
            behind=len(shared) - len(copied),
            unproven=unproven,
        )

    @retry_when_blocked
    def take(self, shared: SharedChampion) -> bool:
        """Write another store's champion with what it rests on; True when it leads here now."""
        with self._write() as session:
            return sync.take_champion(session, shared)

    def _log(self, session: Session, campaign_id: str, event: NewEvent | None) -> None:
        # First of all: it locks the campaign's row, which every other lock comes after.
        if event is not None:
            campaign_commands.log_event(session, campaign_id, *event, owner_name())

    def _log_of(self, session: Session, trial_id: str, event: NewEvent | None) -> None:
        if event is not None:
            self._log(session, trial.campaign_of(session, trial_id), event)

    @contextmanager
    def _write(self) -> Iterator[Session]:
        with translated(self.url), Session(self._writing_engine) as session, session.begin():
            yield session
