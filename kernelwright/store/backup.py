"""Copies a SQLite store while others write to it, by SQLite's own backup interface."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

from kernelwright.errors import StoreError
from kernelwright.store.connection import translated
from kernelwright.store.location import label_of, url_of

_PAGES = 4096
"""Pages copied at a time, 16 MB: writers get their turn in between."""


def copy(source_url: str, target: Path) -> None:
    """Copy the store to a new file; it appears whole or not at all.

    Raises:
        StoreError: it is no SQLite file, or the target exists or cannot be written.
    """
    with new_file(target) as partial, translated(url_of(str(target))):
        copy_into(source_url, partial)


def copy_into(source_url: str, target: Path) -> None:
    """Copy the store's content to a file that is still being made."""
    with (
        closing(sqlite3.connect(file_of(source_url))) as source,
        closing(sqlite3.connect(target)) as copied,
    ):
        source.backup(copied, pages=_PAGES)


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
    parsed = make_url(url)
    plain = parsed.get_backend_name() == "sqlite" and parsed.database
    if not plain or parsed.database == ":memory:" or parsed.query:
        raise StoreError(
            f"expected a store in a SQLite file, found {label_of(url)}; "
            "use that database's own tools instead."
        )
    assert parsed.database is not None
    return parsed.database


def _discard(partial: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
