"""What a database says where it fails, as one sentence that names the store."""

import re
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    NoSuchModuleError,
    SQLAlchemyError,
)

from kernelwright.errors import BlockedError, ConflictError, StoreError
from kernelwright.extra import missing_extra
from kernelwright.store.location import label_of, without_secrets

_REASONS = {
    "database is locked": "is locked by another program; close it, or wait and try again",
    "disk is full": "is on a full disk; free some space to go on",
    "readonly database": "is read-only; make it writable or choose another with --store",
    "unable to open database": "cannot be opened; check the path and its permissions",
    "not a database": "is not a Kernelwright store; choose another with --store",
    "no such column": "lacks what its schema has, as stores of development versions do; "
    "choose another with --store",
    "no such table": "lacks what its schema has, as stores of development versions do; "
    "choose another with --store",
    "malformed": "is damaged; restore a backup or choose another with --store",
    "over a quota": "cannot be written to its disk, which fails or is over a quota; free some "
    "space or check the disk to go on",
    "file-size limit": "is as large as this shell lets a file be; raise the limit (ulimit -f) and "
    "go on with the same command",
    "disk i/o error": "cannot be read or written; check the disk",
}
_PASSING = ("database is locked", "disk is full", "over a quota")
"""Those among them that may be over in a minute."""
_NO_ROOM = ("SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP")
_UNWRITTEN = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE")
_POSTGRESQL = {
    "08": "does not answer; start its server, or check the URL",
    "53": "is out of room or connections; free some to go on",
    "55": "is locked by another program; wait and try again",
    "57": "is being stopped or restarted; wait until its server is back",
    "28": "refuses this user or password; check the URL",
    "3D": "does not exist; create the database, or check the URL",
    "42": "refuses this; its user needs the rights to create and to write tables",
}
"""By the class of PostgreSQL's error codes, its appendix A."""
_POSTGRESQL_PASSING = ("08", "53", "55", "57")
_CONFLICTS = ("40001", "40P01", "23503", "23505")
"""Another writer came first: serialization, deadlock, a row that is gone or there already."""


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn a database's own errors into one sentence that names the store."""
    try:
        yield
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as e:
        if isinstance(e, ImportError) and (missing := missing_extra(e)) is not None:
            raise missing from e
        raise StoreError(
            "expected a path or a SQLAlchemy URL with its driver installed, found "
            f"{label_of(url)!r} ({without_secrets(str(e), url)})."
        ) from None
    except ValidationError as e:
        raise StoreError(
            f"the store {label_of(url)} holds a row of {e.title} that cannot be read; restore "
            "a backup or choose another with --store."
        ) from e
    except (SQLAlchemyError, sqlite3.Error) as e:
        raise _kind(e)(f"the store {label_of(url)} {_reason(e, url)}.") from e


def _kind(error: SQLAlchemyError | sqlite3.Error) -> type[StoreError]:
    """Tell what passes, and what another writer caused, from what stays."""
    code = _code(error)
    if code in _CONFLICTS:
        return ConflictError
    said = _words(error).lower()
    passes = code[:2] in _POSTGRESQL_PASSING or any(words in said for words in _PASSING)
    return BlockedError if passes else StoreError


def _code(error: SQLAlchemyError | sqlite3.Error) -> str:
    """Return PostgreSQL's five-letter code; a server that never answered gave none."""
    if not isinstance(error, DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return ""
    code = getattr(error.orig, "sqlstate", None)
    if isinstance(code, str):
        return code
    said = _words(error)
    if re.search(r'role "[^"]*" does not exist', said):
        return "28000"
    if "does not exist" in said:
        return "3D000"
    if "authentication failed" in said or "no pg_hba.conf entry" in said:
        return "28000"
    is_lost = error.connection_invalidated or "connect" in said
    return "08000" if is_lost else ""


def _reason(error: SQLAlchemyError | sqlite3.Error, url: str) -> str:
    said = _words(error)
    if reason := _POSTGRESQL.get(_code(error)[:2]):
        return reason
    for words, reason in _REASONS.items():
        if words in said.lower():
            return reason
    line = said.splitlines()[0] if said else type(error).__name__
    return f"failed: {without_secrets(line, url)}"


def _words(error: SQLAlchemyError | sqlite3.Error) -> str:
    said = error.orig if isinstance(error, DatabaseError) else error
    # The index of a log needs room even to read; SQLite calls that an error of the disk.
    if getattr(said, "sqlite_errorname", "") in _NO_ROOM:
        return "disk is full"
    # SQLite keeps "full" for a disk, and calls a quota's or a limit's end an error of the disk.
    if getattr(said, "sqlite_errorname", "") in _UNWRITTEN:
        limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
        return "file-size limit" if limited else "over a quota"
    return str(said).strip()
