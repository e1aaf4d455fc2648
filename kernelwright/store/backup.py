"""Copies a store to a SQLite file while others write to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import insert, make_url, select

from kernelwright.errors import StoreError
from kernelwright.store.connection import BUSY_TIMEOUT_S, connect
from kernelwright.store.database_error import translated
from kernelwright.store.location import label_of, path_of, url_of
from kernelwright.store.read_only import is_read_only, open_read_only
from kernelwright.store.schema import Base

_PAGES = 4096
"""Pages copied at a time, 16 MB: writers get their turn in between."""
_ROWS = 1000


def copy(source_url: str, target: Path) -> None:
    """Copy the store to a new SQLite file; it appears whole or not at all.

    Raises:
        StoreError: it is in memory only, or the target exists or cannot be written.
    """
    with new_file(target) as partial, translated(url_of(str(target))):
        copy_into(source_url, partial)


def copy_before_migration(url: str, schema: str) -> None:
    """Keep a copy of a store in a file beside it whose schema is about to change.

    `kernels.db` becomes `kernels.before-0005.db`. A store in memory has nothing to lose.

    Raises:
        StoreError: there is no room, or the folder is not writable.
    """
    place = path_of(url)
    if place is None or place.name == ":memory:" or make_url(url).query:
        return
    target = place.with_name(f"{place.stem}.before-{schema}{place.suffix}")
    target.unlink(missing_ok=True)
    copy(url, target)


def copy_into(source_url: str, target: Path) -> None:
    """Copy the store's content to a file that is still being made."""
    if make_url(source_url).get_backend_name() == "postgresql":
        _copy_rows(source_url, target)
        return
    with closing(_opened(source_url)) as source, closing(sqlite3.connect(target)) as copied:
        source.backup(copied, pages=_PAGES)


def _opened(url: str) -> sqlite3.Connection:
    path = Path(file_of(url))
    with translated(url):
        if is_read_only(path):
            return open_read_only(path, busy_timeout_s=BUSY_TIMEOUT_S)
        return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)


def _copy_rows(source_url: str, target: Path) -> None:
    """Copy every row, all of one moment, from a server to a file."""
    source = connect(source_url, create=False)
    copied = connect(url_of(str(target)), create=True)
    try:
        with (
            source.connect().execution_options(isolation_level="REPEATABLE READ") as reading,
            copied.connect() as writing,
        ):
            # A call may stand before the one that it follows.
            cursor = writing.connection.cursor()
            cursor.execute("PRAGMA foreign_keys = OFF")
            cursor.close()
            with writing.begin():
                for table in Base.metadata.sorted_tables:
                    rows = reading.execution_options(yield_per=_ROWS).execute(select(table))
                    for chunk in rows.mappings().partitions():
                        writing.execute(insert(table), [dict(row) for row in chunk])
    finally:
        source.dispose()
        copied.dispose()


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield the path of a file to write, which becomes `target` when all went well."""
    target = target.expanduser().absolute()
    if target.exists():
        raise StoreError(f"expected a file that is not there yet, found {target}; name another.")
    partial = target.with_name(target.name + ".partial")
    try:
        _discard(partial)
        yield partial
        # The last connection has folded its log into the file when it closed.
        partial.replace(target)
    except OSError as e:
        raise StoreError(
            f"the file {target} cannot be written ({e.strerror}); name another folder."
        ) from e
    finally:
        _discard(partial)


def file_of(url: str) -> str:
    """Return the file of a SQLite store.

    Raises:
        StoreError: the store is no file.
    """
    path = path_of(url)
    if path is None or path.name == ":memory:" or make_url(url).query:
        raise StoreError(
            f"expected a store in a SQLite file or on a PostgreSQL server, found {label_of(url)}."
        )
    return str(path)


def _discard(partial: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
