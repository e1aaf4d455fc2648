"""Notices that a store's file was moved, removed or replaced while a program had it open."""

from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from kernelwright.errors import StoreError

_Identity = tuple[int, int]


def watch_file(engine: Engine, path: Path, label: str) -> None:
    """Let every use of a connection check that the file is the one that was opened first.

    An open connection goes on reading and writing a file that no path leads to any more.

    Raises:
        StoreError: from whatever uses the store afterwards.
    """
    opened: list[_Identity] = []

    def check(
        connection: DBAPIConnection, entry: ConnectionPoolEntry, proxy: PoolProxiedConnection
    ) -> None:
        found = _identity(path)
        if not opened:
            if found is not None:
                opened.append(found)
            return
        if found is None:
            raise StoreError(
                f"the store {label} was moved or removed while it was open; put it back, or start "
                "this program again with --store."
            )
        if found != opened[0]:
            raise StoreError(
                f"the store {label} was replaced by another file while it was open; start this "
                "program again to read the new one."
            )

    event.listen(engine, "checkout", check)


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
