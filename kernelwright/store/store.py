"""The kernel store: what is remembered, in one database, behind plain methods."""

import platform
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from kernelwright.digest import digest
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
from kernelwright.store.campaign_writer import CampaignWriter
from kernelwright.store.commands import champion as champion_commands
from kernelwright.store.connection import BUSY_TIMEOUT_S, connect, disconnect
from kernelwright.store.database_error import translated
from kernelwright.store.dialogue_store import DialogueStore
from kernelwright.store.fleet import FleetStore
from kernelwright.store.location import default_url, url_of
from kernelwright.store.machine import MachineTrial
from kernelwright.store.pruning import Pruned
from kernelwright.store.reader import StoreReader
from kernelwright.store.record import (
    Champion,
    Freshness,
    Wanted,
)
from kernelwright.store.retry import give_up, retry_when_blocked
from kernelwright.store.sync import SharedChampion, Synced
from kernelwright.store.trial_writer import TrialWriter


class KernelStore(StoreReader, CampaignWriter, TrialWriter):
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
    def promote(self, evaluation_id: str) -> None:
        """Promote the candidate of a confirmed evaluation if it leads its task."""
        with self._write() as session:
            champion_commands.promote(session, evaluation_id)

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
