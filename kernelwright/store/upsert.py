"""Inserts that another writer may have made first: they change nothing then, and say so."""

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from kernelwright.store.schema import Base


def insert_once(session: Session, table: type[Base], **values: object) -> bool:
    """Insert a row unless one with its key is there; True when it was inserted.

    Where another transaction has inserted the row and not ended yet, PostgreSQL waits for it.
    """
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        done = session.execute(
            postgresql.insert(table).values(values).on_conflict_do_nothing().returning(1)
        )
        return done.first() is not None
    if session.get_bind().dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        done = session.execute(
            sqlite.insert(table).values(values).on_conflict_do_nothing().returning(1)
        )
        return done.first() is not None
    session.execute(insert(table).values(values))
    return True


def exclusive(session: Session, name: str) -> None:
    """Let one transaction at a time go on under a name; SQLite has one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(
            text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"kernelwright {name}"}
        )
