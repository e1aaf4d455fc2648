"""A new SQLite store has the schema to which all migrations together lead."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine

from kernelwright.store import KernelStore
from kernelwright.store.migration import migrate
from kernelwright.store.new_schema import SCRIPT, script_of


def test_the_script_is_what_the_migrations_lead_to(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/migrated.db")
    with engine.begin() as connection:
        migrate(connection)
        made = script_of(connection)
    engine.dispose()
    if pytestconfig.getoption("--update-golden"):
        SCRIPT.write_text(made)
    assert _unordered(SCRIPT.read_text()) == _unordered(made)


def _unordered(script: str) -> list[list[str]]:
    """Return the lines of each statement: SQLAlchemy finds a table's constraints in any order."""
    statements = (statement.splitlines() for statement in script.split(";\n"))
    return sorted(sorted(line.strip(" ,\t") for line in lines) for lines in statements)


def test_a_new_store_has_that_schema(tmp_path: Path) -> None:
    KernelStore(str(tmp_path / "new.db")).close()
    engine = create_engine(f"sqlite:///{tmp_path}/new.db")
    with engine.connect() as connection:
        assert script_of(connection) == SCRIPT.read_text()
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    engine.dispose()
