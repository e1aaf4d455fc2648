"""Creates the newest schema in an empty SQLite database, as all migrations together would."""

from pathlib import Path

from sqlalchemy import Connection

SCRIPT = Path(__file__).parent / "migrations" / "newest.sql"
"""What the migrations lead to; `pytest --update-golden tests/store` writes it."""


def create_newest(connection: Connection) -> None:
    """Create the newest schema within the connection's open transaction.

    The migrations would take a tenth of a second for it, and Alembic as long to import.
    """
    for statement in SCRIPT.read_text().split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)


def script_of(connection: Connection) -> str:
    """Return the statements that create the schema of a SQLite database."""
    found = connection.exec_driver_sql(
        # Tables whose names begin so are made by SQLite itself.
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
        "ORDER BY type DESC, rowid"
    )
    version = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
    statements = [str(statement).replace(", \n", ",\n") for (statement,) in found]
    return ";\n".join(
        [*statements, f"INSERT INTO alembic_version (version_num) VALUES ('{version}')", ""]
    )
