"""A store whose disk fills when it is told to, for rehearsals."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy.orm import Session

from kernelwright.store.store import KernelStore

_FILLER = "CREATE TABLE filler AS SELECT zeroblob(1048576) AS filling"
_NO_LIMIT = 1 << 30


class Trouble(Protocol):
    """Is told of every write."""

    def before_write(self) -> bool:
        """Return True when the disk shall be full for this one."""

    def after_write(self) -> None:
        """The write is durable."""


class FaultyStore(KernelStore):
    """A store that lets somebody interfere with its writes."""

    def __init__(self, url: str | None, trouble: Trouble) -> None:
        self._trouble = trouble
        super().__init__(url)

    @contextmanager
    def _write(self) -> Iterator[Session]:
        is_full = self._trouble.before_write()
        with super()._write() as session:
            yield session
            if is_full:
                session.flush()
                _fill(session)
        self._trouble.after_write()


def _fill(session: Session) -> None:
    """Ask for room at the page limit, which SQLite reports just as it reports a full disk."""
    connection = session.connection()
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    try:
        connection.exec_driver_sql(_FILLER)
    finally:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {_NO_LIMIT}")
