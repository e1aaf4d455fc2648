"""Opens a SQLite store that may only be read: another user's, or one on a read-only disk."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote


def is_read_only(path: Path) -> bool:
    """Say whether a store is there and this process may not write it.

    SQLite also writes beside the file, where its log is.
    """
    if not path.exists():
        return False
    if not os.access(path, os.W_OK):
        return True
    beside = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
    has_log = all(file.exists() and os.access(file, os.W_OK) for file in beside)
    return not (has_log or os.access(path.parent, os.W_OK))


def open_read_only(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a store to read it.

    A store in WAL mode without its log's index cannot be opened where that cannot be made. It is
    then read as a file that nobody changes, without what its log holds.
    """
    place = f"file:{quote(str(path.absolute()))}"
    connection = _connected(f"{place}?mode=ro", busy_timeout_s)
    with suppress(sqlite3.OperationalError):
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        return connection
    connection.close()
    return _connected(f"{place}?mode=ro&immutable=1", busy_timeout_s)


def _connected(uri: str, timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=timeout_s, check_same_thread=False)
