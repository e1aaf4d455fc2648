"""Notices that a store's file was moved, removed or replaced while a program had it open."""

from pathlib import Path

from sqlalchemy import Dialect, Engine, event
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

    def check() -> None:
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

    def connects(dialect: Dialect, entry: ConnectionPoolEntry, where: object, how: object) -> None:
        # SQLite would make an empty file, which may get the inode of the one that was removed.
        if opened:
            check()

    def uses(
        connection: DBAPIConnection, entry: ConnectionPoolEntry, proxy: PoolProxiedConnection
    ) -> None:
        check()

    event.listen(engine, "do_connect", connects)
    event.listen(engine, "checkout", uses)


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
