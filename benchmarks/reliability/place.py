"""Where the stores of a sweep are: files, or databases of a PostgreSQL server of its own."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from sqlalchemy import create_engine, make_url

from kernelwright.campaign.fleet.job_queue import prepare_queue
from kernelwright.store import KernelStore
from kernelwright.store.embedded import create_database, embedded_server

Kind = Literal["sqlite", "postgresql", "fleet"]
"""`fleet` is PostgreSQL, with workers that are processes of their own."""
_TEMPLATE = "reliability_template"


class Place(Protocol):
    """Makes room for stores."""

    def url(self, folder: Path) -> str:
        """Return where the store of the campaign in a folder is to be."""

    def forget(self, url: str) -> None:
        """Give a store's room back."""


class Files:
    """A SQLite file in each campaign's folder."""

    def url(self, folder: Path) -> str:
        """Return the file's path."""
        return str(folder / "kernels.db")

    def forget(self, url: str) -> None:
        """Leave it to whoever removes the folder."""


class Databases:
    """A database for each campaign, copied from an empty store."""

    def __init__(self, server: str) -> None:
        self._server = server

    def url(self, folder: Path) -> str:
        """Make a database."""
        return create_database(self._server, f"night_{uuid.uuid4().hex}", template=_TEMPLATE)

    def forget(self, url: str) -> None:
        """Drop it, with the connections of those that were killed."""
        admin = make_url(self._server).set(drivername="postgresql+psycopg")
        engine = create_engine(admin, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            name = make_url(url).database
            connection.exec_driver_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        engine.dispose()


@contextmanager
def opened_place(kind: Kind) -> Iterator[Place]:
    """Start a server where one is needed, and delete it at the end."""
    if kind == "sqlite":
        yield Files()
        return
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-pg-"))
    with embedded_server(folder / "data", at_the_end="delete") as server:
        _hurry(server.url)
        template = create_database(server.url, _TEMPLATE)
        KernelStore(template).close()
        prepare_queue(template)
        yield Databases(server.url)
    shutil.rmtree(folder, ignore_errors=True)


def _hurry(server: str) -> None:
    """Write nothing through to the disk: no machine is switched off here."""
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("ALTER SYSTEM SET fsync = off")
        connection.exec_driver_sql("ALTER SYSTEM SET max_connections = 200")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    engine.dispose()
