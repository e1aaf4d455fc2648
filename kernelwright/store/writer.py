"""What every write of the store shares: one transaction, an event first, another try."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from kernelwright.store.commands import campaign as campaign_commands
from kernelwright.store.commands import trial
from kernelwright.store.database_error import translated
from kernelwright.store.owner import owner_name
from kernelwright.store.record import NewEvent
from kernelwright.store.retry import RetryingWriter

LEASE = timedelta(minutes=10)


class StoreWriter(RetryingWriter):
    """A part of the writing half of `KernelStore`."""

    url: str
    _writing_engine: Engine

    @property
    def _owner(self) -> str:
        """This process, as the owner of runs and trials."""
        return owner_name()

    def _log(self, session: Session, campaign_id: str, event: NewEvent | None) -> None:
        # First of all: it locks the campaign's row, which every other lock comes after.
        if event is not None:
            campaign_commands.log_event(session, campaign_id, *event, self._owner)

    def _log_of(self, session: Session, trial_id: str, event: NewEvent | None) -> None:
        if event is not None:
            self._log(session, trial.campaign_of(session, trial_id), event)

    @contextmanager
    def _write(self) -> Iterator[Session]:
        with translated(self.url), Session(self._writing_engine) as session, session.begin():
            yield session
