"""Opens a database: its version is read before anything is written, then it is migrated."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from kernelwright.errors import BlockedError, StoreError
from kernelwright.store.location import label_of
from kernelwright.store.schema import SCHEMA_VERSION

BUSY_TIMEOUT_S = 10.0
_REASONS = {
    "database is locked": "is locked by another program; close it, or wait and try again",
    "disk is full": "is on a full disk; free some space to go on",
    "readonly database": "is read-only; make it writable or choose another with --store",
    "unable to open database": "cannot be opened; check the path and its permissions",
    "not a database": "is not a Kernelwright store; choose another with --store",
    "malformed": "is damaged; restore a backup or choose another with --store",
    "disk i/o error": "cannot be read or written; check the disk",
}
_PASSING = ("database is locked", "disk is full")
"""Those among them that may be over in a minute."""


def connect(url: str, *, create: bool, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Open the database at `url` at this version's schema.

    Raises:
        StoreError: it is missing (unless `create`), newer, foreign, locked, damaged or full;
            nothing has been changed then.
    """
    with translated(url):
        engine = _engine(url, create=create, busy_timeout_s=busy_timeout_s)
        try:
            _bring_up_to_date(engine, url)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn a database's own errors into one sentence that names the store."""
    try:
        yield
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as e:
        raise StoreError(
            f"expected a path or a SQLAlchemy URL with its driver installed, found {url!r} ({e})."
        ) from e
    except (SQLAlchemyError, sqlite3.Error) as e:
        said = _words(e).lower()
        kind = BlockedError if any(words in said for words in _PASSING) else StoreError
        raise kind(f"the store {label_of(url)} {_reason(e)}.") from e


def _reason(error: SQLAlchemyError | sqlite3.Error) -> str:
    said = _words(error)
    for words, reason in _REASONS.items():
        if words in said.lower():
            return reason
    return f"failed: {said.splitlines()[0] if said else type(error).__name__}"


def _words(error: SQLAlchemyError | sqlite3.Error) -> str:
    return str(error.orig if isinstance(error, DatabaseError) else error).strip()


def _engine(url: str, *, create: bool, busy_timeout_s: float) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed, pool_pre_ping=True)
    if parsed.database and not parsed.database.startswith((":memory:", "file:")):
        _prepare_folder(Path(parsed.database), url, create=create)
    engine = create_engine(parsed, connect_args={"timeout": busy_timeout_s})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_folder(path: Path, url: str, *, create: bool) -> None:
    if path.exists():
        return
    if not create:
        raise StoreError(
            f"there is no store at {label_of(url)} yet; run `kernelwright search FILE.py` first."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise StoreError(
            f"the folder of the store {label_of(url)} cannot be made ({e.strerror}); "
            "choose another with --store."
        ) from e


def _configure_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transactions start late, which lets a reader turn writer and fail at
    # once; `_begin_sqlite` starts them instead.
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # In WAL mode a power cut may lose the last transaction and damages nothing.
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _bring_up_to_date(engine: Engine, url: str) -> None:
    with engine.connect() as connection:
        version = _version(connection, url)
    if version == SCHEMA_VERSION:
        return
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.execution_options(writes=True).begin() as connection:
        # Another process may have migrated while this one waited for the lock.
        if _version(connection, url) != SCHEMA_VERSION:
            # Alembic takes a third of a second to import, and is needed once a schema.
            from kernelwright.store.migration import migrate

            migrate(connection)


def _use_write_ahead_log(engine: Engine) -> None:
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode = WAL")
    finally:
        raw.close()


def _version(connection: Connection, url: str) -> str | None:
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if "alembic_version" not in tables or "candidate" not in tables:
        raise StoreError(
            f"the database {label_of(url)} belongs to another program (it has a table "
            f"{tables[0]!r}); choose another with --store."
        )
    version = str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the store {label_of(url)} has schema {version} and this Kernelwright knows "
            f"{SCHEMA_VERSION}; upgrade Kernelwright or choose another with --store."
        )
    return version
