"""Joins two stores: every row of both, once, and the better champion of each task."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import make_url

from kernelwright.metal.diagnostic import Record
from kernelwright.store.backup import copy_into, file_of, new_file
from kernelwright.store.database_error import translated
from kernelwright.store.location import label_of, url_of
from kernelwright.store.read_only import is_read_only
from kernelwright.store.schema import Base
from kernelwright.store.store import KernelStore

_NEWER = {
    "campaign": "theirs.heartbeat_at > mine.heartbeat_at",
    "trial": "(theirs.state = 'done', theirs.attempts) > (mine.state = 'done', mine.attempts)",
    "call": "mine.state = 'begun' AND theirs.state <> 'begun'",
    "candidate": "theirs.created_at < mine.created_at",
    "task": "theirs.created_at < mine.created_at",
    "lesson": "theirs.helped + theirs.hurt > mine.helped + mine.hurt",
    "wanted": "theirs.calls > mine.calls",
    "machine_trial": "theirs.tried_at > mine.tried_at",
    "champion": """
        CASE WHEN mine.candidate_id = theirs.candidate_id
        THEN (theirs_at.created_at, theirs.state <> 'fresh')
           > (mine_at.created_at, mine.state <> 'fresh')
        WHEN (mine.state = 'fresh') <> (theirs.state = 'fresh') THEN theirs.state = 'fresh'
        WHEN mine.environment_id <> theirs.environment_id
        THEN theirs_at.created_at > mine_at.created_at
        ELSE (instr('measured predicted traffic', theirs.rank_kind), theirs.rank_value)
           < (instr('measured predicted traffic', mine.rank_kind), mine.rank_value) END""",
}
"""When another store's row takes the place of the one with its key.

Rows of a kind that is not here never change. Of one champion the later verdict counts; of two,
a fresh one, then the later environment, then the rank.
"""
_LOG = "event"
"""The table of lines that have a number and no name: lines of one content are counted."""

_DATE_WORDS = """
    UPDATE champion_word AS w SET crowned_at = c.crowned_at FROM champion AS c
    WHERE (c.task_id, c.device, c.chip) = (w.task_id, w.device, w.chip)
    AND c.crowned_at <> w.crowned_at"""
"""A champion that took another's place is found where it was promoted itself."""


class Merged(Record):
    """What a merge made."""

    url: str
    rows: dict[str, int]
    """By table, where there are any."""
    added: dict[str, int]
    """Rows that only the second store had."""


def merge_stores(first: str, second: str, target: Path) -> Merged:
    """Write the rows of two stores to a new file; neither of them changes.

    Merging copies of one store, or the same two again, adds nothing.

    Raises:
        StoreError: a store is missing, foreign or no SQLite file, or the target exists.
    """
    urls = [_current(place) for place in (first, second)]
    url = url_of(str(target))
    with new_file(target) as partial, translated(url):
        copy_into(urls[0], partial)
        with _as_file(urls[1], partial) as other:
            added = _add(partial, other)
    with KernelStore(url, must_exist=True) as store:
        rows = {table: count for table, count in store.statistics().rows.items() if count}
    return Merged(url=label_of(url), rows=rows, added=added)


def _current(place: str) -> str:
    """Bring a store to this version's schema; return its URL."""
    with KernelStore(place, must_exist=True) as store:
        if make_url(store.url).get_backend_name() == "sqlite":
            file_of(store.url)
        return store.url


@contextmanager
def _as_file(url: str, beside: Path) -> Iterator[str]:
    """Yield a store's file, or that of a copy where it is on a server or may only be read."""
    if make_url(url).get_backend_name() == "sqlite" and not is_read_only(Path(file_of(url))):
        yield file_of(url)
        return
    with tempfile.TemporaryDirectory(dir=beside.parent) as folder:
        copied = Path(folder) / "other.db"
        copy_into(url, copied)
        yield str(copied)


def _add(path: Path, other: str) -> dict[str, int]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("ATTACH DATABASE ? AS other", (other,))
        connection.execute("BEGIN IMMEDIATE")
        # Trials point at evaluations and evaluations at candidates, and champions at them all.
        tables = [table.name for table in Base.metadata.sorted_tables]
        added = {table: _add_table(connection, table) for table in tables}
        connection.execute(_DATE_WORDS)
        connection.execute("COMMIT")
        connection.execute("DETACH DATABASE other")
    return {table: count for table, count in added.items() if count}


def _add_table(connection: sqlite3.Connection, name: str) -> int:
    before = _count(connection, name)
    if name == _LOG:
        _add_lines(connection)
    else:
        if name in _NEWER:
            _take_newer(connection, name)
        _add_new(connection, name)
    return _count(connection, name) - before


def _take_newer(connection: sqlite3.Connection, name: str) -> None:
    table = Base.metadata.tables[name]
    keys = [c.name for c in table.primary_key]
    # A call's number among equal requests is its place in this store.
    values = [c.name for c in table.columns if c.name not in (*keys, "ordinal")]
    joined = " AND ".join(f"theirs.{k} = mine.{k}" for k in keys)
    with_verdicts = ""
    if name == "champion":
        with_verdicts = """
            JOIN evaluation AS theirs_at ON theirs_at.id = theirs.evaluation_id
            JOIN evaluation AS mine_at ON mine_at.id = mine.evaluation_id"""
    connection.execute(f"""
        UPDATE {name} SET ({", ".join(values)}) = (
            SELECT {", ".join(f"theirs.{v}" for v in values)} FROM other.{name} AS theirs
            WHERE {" AND ".join(f"theirs.{k} = {name}.{k}" for k in keys)})
        WHERE rowid IN (
            SELECT mine.rowid FROM main.{name} AS mine
            JOIN other.{name} AS theirs ON {joined} {with_verdicts}
            WHERE {_NEWER[name]})""")


def _add_new(connection: sqlite3.Connection, name: str) -> None:
    table = Base.metadata.tables[name]
    columns = ", ".join(c.name for c in table.columns)
    chosen = ", ".join(_value(name, c.name) for c in table.columns)
    known = " AND ".join(f"mine.{k.name} = theirs.{k.name}" for k in table.primary_key)
    connection.execute(f"""
        INSERT INTO main.{name} ({columns}) SELECT {chosen} FROM other.{name} AS theirs
        WHERE NOT EXISTS (SELECT 1 FROM main.{name} AS mine WHERE {known})""")


def _value(table: str, column: str) -> str:
    if (table, column) != ("call", "ordinal"):
        return f"theirs.{column}"
    return """
        (SELECT coalesce(max(m.ordinal) + 1, 0) FROM main.call AS m
         WHERE m.request_hash = theirs.request_hash)
        + row_number() OVER (PARTITION BY theirs.request_hash ORDER BY theirs.ordinal) - 1"""


def _add_lines(connection: sqlite3.Connection) -> None:
    """Append the lines of theirs that are more often there than here, in their order."""
    connection.execute("""
        INSERT INTO main.event (campaign_id, at, kind, body)
        SELECT lines.campaign_id, lines.at, lines.kind, lines.body
        FROM (SELECT *, row_number() OVER
                  (PARTITION BY campaign_id, at, kind, body ORDER BY id) AS occurrence
              FROM other.event) AS lines
        WHERE occurrence > (
            SELECT count(*) FROM main.event AS mine
            WHERE mine.campaign_id = lines.campaign_id AND mine.at = lines.at
            AND mine.kind = lines.kind AND mine.body = lines.body)
        ORDER BY lines.id""")


def _count(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM main.{name}").fetchone()[0])
