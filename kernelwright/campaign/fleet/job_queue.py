"""The queue of a fleet: Procrastinate's tables beside the store's, in one PostgreSQL database."""

import logging
from typing import TYPE_CHECKING

from kernelwright.errors import BlockedError, InputError, StoreError
from kernelwright.store.location import libpq_url

if TYPE_CHECKING:
    from procrastinate import App
    from psycopg_pool import AsyncConnectionPool

TASK = "kernelwright.evaluate"
HEARTBEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""Without a sign of life a worker is dead: its machine rebooted, hangs or is cut off."""
_SECRETIVE = ("procrastinate", "psycopg")
"""Loggers whose records hold whole jobs, with their campaign's secret, or addresses."""
_ANSWER_S = 5.0
"""How long a connection to the queue is waited for; a server that restarts takes less."""
_SCHEMA_LOCK = 0x6B77_0002


def queue_app(url: str) -> "App":
    """Return the queue in a store's database, not opened yet.

    Raises:
        InputError: the store is no PostgreSQL, or Procrastinate is not installed.
    """
    address = queue_address(url)
    try:
        from procrastinate import App, PsycopgConnector
    except ImportError as e:
        raise InputError(
            "a fleet needs an extra package; install it with: pip install 'kernelwright[fleet]'"
        ) from e
    _silence()
    return App(
        connector=PsycopgConnector(
            pool_factory=_impatient_pool(),
            conninfo=address,
            min_size=1,
            max_size=4,
            timeout=_ANSWER_S,
        )
    )


def _impatient_pool() -> "type[AsyncConnectionPool]":
    """Return the pool that waits for its first connection as it does for every other."""
    from psycopg_pool import AsyncConnectionPool

    class Pool(AsyncConnectionPool):
        async def open(self, wait: bool = False, timeout: float = _ANSWER_S) -> None:
            await super().open(wait, timeout)

    return Pool


def queue_errors() -> tuple[type[Exception], ...]:
    """Return what opening and reading a queue raise while its server is away.

    Procrastinate translates the errors of queries, and lets those of its pool through.
    """
    import psycopg
    from procrastinate.exceptions import ProcrastinateException

    return ProcrastinateException, psycopg.Error, OSError


def _silence() -> None:
    """Keep jobs out of every log: whoever uses the queue says in a sentence what failed."""
    for name in _SECRETIVE:
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def prepare_queue(url: str) -> None:
    """Make the queue's tables where they are missing; several processes may do so at once.

    Raises:
        InputError: the store is no PostgreSQL, or Procrastinate is not installed.
        BlockedError: the server is away.
        StoreError: the database refuses it.
    """
    address = queue_address(url)
    queue_app(url)
    import psycopg
    from procrastinate.schema import SchemaManager

    try:
        with psycopg.connect(address) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            found = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
            if found is None or found[0] is None:
                connection.execute(SchemaManager.get_schema())
    except psycopg.Error as e:
        said = str(e).strip().partition("\n")[0]
        kind = BlockedError if isinstance(e, psycopg.OperationalError) else StoreError
        raise kind(f"the fleet's queue cannot be made: {said}") from e


def queue_address(url: str) -> str:
    """Return where libpq finds a store's database.

    Raises:
        InputError: the store is no PostgreSQL.
    """
    address = libpq_url(url)
    if address is None:
        raise InputError(
            "expected a PostgreSQL store for a fleet, such as postgresql://user@host/database; "
            "start one on this machine with: kernelwright fleet up"
        )
    return address
