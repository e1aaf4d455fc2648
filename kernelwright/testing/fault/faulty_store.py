"""A store whose disk fills, or that is away, when it is told to, for rehearsals."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol

from sqlalchemy.orm import Session

from kernelwright.store.database_error import translated
from kernelwright.store.store import KernelStore
from kernelwright.testing.fault.sabotage import WriteTrouble

_FILLER = "CREATE TABLE filler AS SELECT zeroblob(1048576) AS filling"
_NO_LIMIT = 1 << 30
_DISK_FULL = "DO $$ BEGIN RAISE EXCEPTION 'as planned' USING ERRCODE = 'disk_full'; END $$"
_END_CONNECTION = "SELECT pg_terminate_backend(pg_backend_pid())"


class Trouble(Protocol):
    """Is told of every write."""

    def before_write(self) -> WriteTrouble | None:
        """Return what shall fail this one."""

    def after_write(self) -> None:
        """The write is durable."""


class FaultyStore(KernelStore):
    """A store that lets somebody interfere with its writes; the errors are the database's own."""

    def __init__(self, url: str | None, trouble: Trouble) -> None:
        self._trouble = trouble
        super().__init__(url)

    @contextmanager
    def _write(self) -> Iterator[Session]:
        trouble = self._trouble.before_write()
        is_sqlite = self._engine.dialect.name == "sqlite"
        if trouble == "store_away" and is_sqlite:
            self._meet_a_lock()
        with super()._write() as session:
            yield session
            if trouble is not None:
                session.flush()
                if is_sqlite:
                    _fill(session)
                else:
                    full = trouble == "disk_full"
                    session.connection().exec_driver_sql(_DISK_FULL if full else _END_CONNECTION)
        self._trouble.after_write()

    def _meet_a_lock(self) -> None:
        """Fail as a write does that has waited long enough for another program's lock."""
        file = self._engine.url.database or ""
        with (
            translated(self.url),
            closing(sqlite3.connect(file)) as holder,
            closing(sqlite3.connect(file, timeout=0.0)) as late,
        ):
            holder.execute("BEGIN IMMEDIATE")
            late.execute("BEGIN IMMEDIATE")


def _fill(session: Session) -> None:
    """Ask for room at the page limit, which SQLite reports just as it reports a full disk."""
    connection = session.connection()
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    try:
        connection.exec_driver_sql(_FILLER)
    finally:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {_NO_LIMIT}")
