"""Opens a database: its version is read before anything is written, then it is migrated."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from kernelwright.errors import StoreError
from kernelwright.scratch import ScratchFolder
from kernelwright.store.database_error import translated
from kernelwright.store.identity import watch_file
from kernelwright.store.location import label_of, path_of, url_of
from kernelwright.store.new_schema import create_newest
from kernelwright.store.read_only import is_read_only, open_read_only
from kernelwright.store.schema import SCHEMA_VERSION
from kernelwright.validation import shown

BUSY_TIMEOUT_S = 10.0
_COPIES: "WeakKeyDictionary[Engine, ScratchFolder]" = WeakKeyDictionary()
"""Folders of copies, which go with the engines that read them."""
_NUMBERED = re.compile(r"(?!0000)\d{4}")
"""How every version of a schema is named."""
_MIGRATIONS_LOCK = 0x6B77_0001
"""The advisory lock under which one process at a time brings a schema up to date."""


def connect(url: str, *, create: bool, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Open the database at `url` at this version's schema.

    Raises:
        StoreError: it is missing (unless `create`), newer, foreign, locked, damaged or full;
            nothing has been changed then.
    """
    with translated(url):
        engine = _engine(url, create=create, busy_timeout_s=busy_timeout_s)
        try:
            if _is_to_be_copied(engine, url):
                engine.dispose()
                return _migrated_copy(url, busy_timeout_s)
            _bring_up_to_date(engine, url, busy_timeout_s)
        except BaseException:
            engine.dispose()
            raise
    return engine


def _is_to_be_copied(engine: Engine, url: str) -> bool:
    """Say whether a store is of an older schema and may only be read."""
    path = engine.url.database
    if engine.dialect.name != "sqlite" or not path or not is_read_only(Path(path)):
        return False
    with engine.connect() as connection:
        version = _version(connection, url)
    return version is not None and version < SCHEMA_VERSION


def _migrated_copy(url: str, busy_timeout_s: float) -> Engine:
    """Open a copy in a temporary folder, brought up to date, to read it."""
    folder = ScratchFolder()
    copied = folder.path / "kernels.db"
    path = Path(_parsed(url).database or "")
    with (
        closing(open_read_only(path, busy_timeout_s=busy_timeout_s)) as source,
        closing(sqlite3.connect(copied)) as target,
    ):
        source.backup(target)
    engine = _engine(url_of(str(copied)), create=False, busy_timeout_s=busy_timeout_s)
    _bring_up_to_date(engine, url, busy_timeout_s, is_copy=True)
    # A write would be lost with the copy.
    event.listen(engine, "connect", _read_alone)
    engine.dispose()
    _COPIES[engine] = folder
    return engine


def disconnect(engine: Engine) -> None:
    """Let go of a database, and of the copy that stood in for one."""
    engine.dispose()
    if (folder := _COPIES.pop(engine, None)) is not None:
        folder.remove()


def _read_alone(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection.cursor().execute("PRAGMA query_only = ON")


def _engine(url: str, *, create: bool, busy_timeout_s: float) -> Engine:
    parsed = _with_driver(_parsed(url))
    if parsed.get_backend_name() == "postgresql":
        return create_engine(parsed, pool_pre_ping=True, pool_size=20, max_overflow=20)
    if parsed.get_backend_name() != "sqlite":
        raise StoreError(
            f"expected a path, or the URL of a SQLite or PostgreSQL database, found "
            f"{label_of(url)}; other databases are not supported."
        )
    if "\0" in url:
        raise StoreError(f"expected a path or a URL without NUL, found {url!r}.")
    is_file = bool(parsed.database) and not str(parsed.database).startswith((":memory:", "file:"))
    if is_file:
        _prepare_folder(Path(str(parsed.database)), url, create=create)
    engine = _sqlite_engine(parsed, busy_timeout_s)
    if is_file:
        watch_file(engine, Path(str(parsed.database)).absolute(), label_of(url))
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ValueError as e:
        # Its words repeat a part of the URL, which may be one of a password.
        raise StoreError(
            f"expected a path, or a URL such as postgresql://user:password@host:5432/name, found "
            f"{label_of(url)!r}, whose port is no number."
        ) from e
    # SQLAlchemy 2.0 does not decode a database's name, 2.1 does.
    return parsed if (path := path_of(url)) is None else parsed.set(database=str(path))


def _sqlite_engine(url: URL, busy_timeout_s: float) -> Engine:
    path = Path(url.database or "")
    if url.database and is_read_only(path):
        opened = partial(open_read_only, path, busy_timeout_s=busy_timeout_s)
        return create_engine(url, creator=opened)
    return create_engine(url, connect_args={"timeout": busy_timeout_s})


def _with_driver(url: URL) -> URL:
    """Let `postgresql://` mean psycopg 3, the driver that is installed with the fleet."""
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    return url


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


def _bring_up_to_date(
    engine: Engine, url: str, busy_timeout_s: float, *, is_copy: bool = False
) -> None:
    with engine.connect() as connection:
        version = _version(connection, url)
    if version == SCHEMA_VERSION:
        return
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine, busy_timeout_s)
    with _migrating(engine) as connection:
        # Another process may have migrated while this one waited for the lock.
        if (version := _version(connection, url)) == SCHEMA_VERSION:
            return
        if version is None and engine.dialect.name == "sqlite":
            create_newest(connection)
            return
        # Alembic takes a third of a second to import, and is needed once a schema.
        from kernelwright.store.backup import copy_before_migration
        from kernelwright.store.migration import migrate

        if version is not None and engine.dialect.name == "sqlite" and not is_copy:
            copy_before_migration(url, SCHEMA_VERSION)
        migrate(connection)
        _check_references(connection, url)


@contextmanager
def _migrating(engine: Engine) -> Iterator[Connection]:
    """Hold the one lock under which a schema changes, in one transaction."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATIONS_LOCK})"))
            yield connection
        return
    with engine.execution_options(writes=True).connect() as connection:
        # Tables are rebuilt under a new name; SQLite ignores the pragma within a transaction.
        pragma = connection.connection.cursor()
        pragma.execute("PRAGMA foreign_keys = OFF")
        try:
            with connection.begin():
                yield connection
        finally:
            pragma.execute("PRAGMA foreign_keys = ON")


def _check_references(connection: Connection, url: str) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise StoreError(
            f"the store {label_of(url)} has a row in {broken[0]!r} whose {broken[2]!r} is missing; "
            "it was left at its schema: restore a backup or choose another with --store."
        )


def _use_write_ahead_log(engine: Engine, busy_timeout_s: float) -> None:
    # Needed once for each store, and slow to import.
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

    # Of two processes that switch at once SQLite fails one without letting it wait.
    retrying = Retrying(
        retry=retry_if_exception(_is_locked),
        stop=stop_after_delay(busy_timeout_s),
        wait=wait_random(0.01, 0.1),
        reraise=True,
    )
    raw = engine.raw_connection()
    try:
        retrying(raw.cursor().execute, "PRAGMA journal_mode = WAL")
    finally:
        raw.close()


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _version(connection: Connection, url: str) -> str | None:
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if "alembic_version" not in tables or "candidate" not in tables:
        raise StoreError(
            f"the database {label_of(url)} belongs to another program (it has a table "
            f"{tables[0]!r}); choose another with --store."
        )
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is None:
        raise StoreError(
            f"the store {label_of(url)} does not say which schema it has; restore a backup or "
            "choose another with --store."
        )
    version = str(found)
    if not _NUMBERED.fullmatch(version):
        raise StoreError(
            f"the store {label_of(url)} has schema {shown(version)}, which no Kernelwright made; "
            "restore a backup or choose another with --store."
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the store {label_of(url)} has schema {version} and this Kernelwright knows "
            f"{SCHEMA_VERSION}; upgrade Kernelwright or choose another with --store."
        )
    return version
