"""Runs the numbered migrations that travel inside the package."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_FOLDER = Path(__file__).parent / "migrations"


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the database to `revision` within the connection's open transaction."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
