"""A store that cannot be used costs one sentence, and is left as it was."""

import resource
import shutil
import sqlite3
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from kernelwright.errors import BlockedError, StoreError
from kernelwright.store import Environment, KernelStore, has_store, label_of, url_of
from kernelwright.store.database_error import translated
from kernelwright.store.location import is_same_place, without_secrets
from kernelwright.store.migration import migrate
from kernelwright.store.schema import SCHEMA_VERSION, Base
from tests.store.conftest import ENVIRONMENT, new_trial, program_of, server_away, task_of

SCHEMAS = sorted((Path(__file__).parent / "schemas").glob("*.sql"))


@pytest.mark.parametrize("dump", SCHEMAS, ids=lambda path: path.stem)
def test_a_file_of_every_schema_opens_with_its_champions(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(dump.read_text())
    connection.close()
    with KernelStore(str(path)) as store:
        (champion,) = store.best()
        assert store.show(champion.candidate_id).evaluations[0].evaluation.is_correct
        store.begin_campaign(name="later", spec="{}", environment=ENVIRONMENT)


def test_there_is_a_file_of_the_newest_schema() -> None:
    assert SCHEMAS[-1].stem == SCHEMA_VERSION


def test_migrations_lead_to_the_orm_classes(tmp_path: Path) -> None:
    # Alembic's comparison, as `alembic check` runs it.
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = create_engine(url_of(str(tmp_path / "kernels.db")))
    with engine.begin() as connection:
        migrate(connection)
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


@pytest.mark.parametrize("name", ["what?.db", "a?mode=ro.db", "100%.db", "a%20b.db", "a#b c.db"])
def test_a_path_names_that_file_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    path, copy = tmp_path / name, tmp_path / f"copy of {name}"
    with KernelStore(str(path)) as store:
        store.begin_campaign(name="x", spec="{}", environment=ENVIRONMENT)
        assert has_store(str(path))
        assert label_of(store.url) == str(path)
        store.backup(copy)
    with KernelStore(str(copy), must_exist=True) as store:
        assert store.statistics().rows["campaign"] == 1
    files = {file.name for file in tmp_path.iterdir()}
    assert files - {f"{name}-wal", f"{name}-shm"} == {name, copy.name}


def test_a_url_may_spell_its_path(tmp_path: Path) -> None:
    _made(tmp_path).rename(tmp_path / "a b.db")
    url = f"sqlite:///{tmp_path}/a%20b.db"
    assert has_store(url)
    assert is_same_place(url, url_of(str(tmp_path / "a b.db")))
    with KernelStore(url, must_exist=True) as store:
        assert store.statistics().rows["campaign"] == 0


def test_a_newer_store_is_refused_untouched(tmp_path: Path) -> None:
    path = _made(tmp_path)
    _execute(path, "UPDATE alembic_version SET version_num = '9999'")
    _assert_refused(path, "has schema 9999 and this Kernelwright knows")


@pytest.mark.parametrize("version", ["ae1027a6acf", "0000", ""])
def test_a_store_that_another_program_relabelled_is_refused_untouched(
    tmp_path: Path, version: str
) -> None:
    path = _made(tmp_path)
    _execute(path, f"UPDATE alembic_version SET version_num = '{version}'")
    _assert_refused(path, f"has schema '{version}', which no Kernelwright made; restore a backup")


def test_a_foreign_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    _execute(path, "CREATE TABLE photos (id INTEGER)")
    _assert_refused(path, "belongs to another program .it has a table 'photos'")


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 100)
    _assert_refused(path, "is not a Kernelwright store")


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = _made(tmp_path)
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)
    _assert_refused(path, "is damaged")


def test_a_locked_store_is_named_and_left_alone(tmp_path: Path) -> None:
    path = _made(tmp_path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with (
        KernelStore(str(path), busy_timeout_s=0.05) as store,
        pytest.raises(StoreError, match="is locked by another program"),
    ):
        store.begin_campaign(name="x", spec="{}", environment=ENVIRONMENT)
    holder.close()


def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = _made(tmp_path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with KernelStore(str(path), busy_timeout_s=0.05) as store:
        assert store.best() == ()
    holder.close()


def test_a_full_disk_is_one_sentence_and_loses_only_the_last_step(tmp_path: Path) -> None:
    path = _made(tmp_path)
    with KernelStore(str(path)) as store:
        campaign = store.begin_campaign(name="x", spec="{}", environment=ENVIRONMENT)
        with store._engine.connect() as connection:
            # SQLite reports a database at its page limit just as it reports a full disk.
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="is on a full disk; free some space"):
            store.add_trial(new_trial(campaign, task_of((4, 8)), program_of("y" * 100_000)))
        rows = store.statistics().rows
    assert (rows["campaign"], rows["task"], rows["candidate"]) == (1, 0, 0)


def test_a_read_only_store_answers_and_refuses_writes(tmp_path: Path) -> None:
    path = _made(tmp_path)
    with KernelStore(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        assert store.best() == ()
        with pytest.raises(StoreError, match="is read-only"):
            store.begin_campaign(name="x", spec="{}", environment=ENVIRONMENT)


@pytest.mark.parametrize("url", ["nosuch://host/db", "sqlite+nodriver:///x.db"])
def test_a_url_without_a_driver_is_one_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="expected a path"):
        KernelStore(url)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"folder of the store .* cannot be made"):
        KernelStore(str(tmp_path / "file" / "deeper" / "kernels.db"))


def test_two_processes_may_create_one_store(tmp_path: Path) -> None:
    path = str(tmp_path / "kernels.db")
    with KernelStore(path) as first, KernelStore(path) as second:
        first.begin_campaign(name="a", spec="{}", environment=ENVIRONMENT)
        second.begin_campaign(name="b", spec="{}", environment=ENVIRONMENT)
        assert len(first.campaigns()) == 2


def test_a_label_never_shows_a_password() -> None:
    assert label_of("postgresql://me:secret@host/db") == "postgresql://host/db"


def test_a_row_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    path = _made(tmp_path)
    with KernelStore(str(path)) as store:
        begun = store.begin_campaign(name="x", spec="{}", environment=ENVIRONMENT)
        store.log(begun.id, "Environment", "{garbage")
        (line,) = store.events(begun.id)
        with pytest.raises(StoreError, match=r"log holds no Environment that can be read; restore"):
            line.read(Environment)
    _execute(path, "UPDATE environment SET body = '{garbage'")
    with (
        KernelStore(str(path)) as store,
        pytest.raises(
            StoreError, match=r"kernels\.db holds a row of Environment that cannot be read"
        ),
    ):
        store.campaigns()


def test_a_label_names_the_socket_of_a_server() -> None:
    url = "postgresql+psycopg://me:@/db?host=/run/fleet&port=5433&password=s3cret"
    assert label_of(url) == "postgresql+psycopg:///db?host=/run/fleet&port=5433"
    assert without_secrets("no server at /run/fleet: s3cret", url) == "no server at /run/fleet: ***"


def test_a_disk_without_room_for_the_index_of_a_log_is_called_full(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    with (
        pytest.raises(BlockedError, match="is on a full disk; free some space to go on"),
        translated(url_of(str(tmp_path / "kernels.db"))),
    ):
        raise error


def _made(folder: Path) -> Path:
    path = folder / "kernels.db"
    KernelStore(str(path)).close()
    return path


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


def _assert_refused(path: Path, sentence: str) -> None:
    before = path.read_bytes()
    kept = path.with_suffix(".kept")
    shutil.copy(path, kept)
    with pytest.raises(StoreError, match=sentence):
        KernelStore(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ('FATAL:  role "kate" does not exist', "refuses this user or password"),
        ('FATAL:  database "kernels" does not exist', "create the database"),
    ],
)
def test_a_missing_user_is_no_missing_database(said: str, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence), translated("postgresql://kate@host/kernels"):
        raise OperationalError("", {}, Exception(f"connection failed: {said}"))


def test_a_store_that_does_not_tell_its_schema_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    KernelStore(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM alembic_version")
    with pytest.raises(StoreError, match="does not say which schema it has; restore a backup"):
        KernelStore(str(path))


def test_a_read_waits_for_a_server_that_is_away_where_writes_do(postgresql_url: str) -> None:
    waited: list[str] = []

    with KernelStore(postgresql_url) as store, ExitStack() as outage:
        outage.enter_context(server_away(postgresql_url))
        with pytest.raises(BlockedError, match="does not answer"):
            store.campaigns()

        def come_back(error: BlockedError) -> None:
            waited.append(str(error))
            outage.close()

        with store.waiting_when_blocked(come_back):
            assert list(store.campaigns()) == []
    assert len(waited) == 1


def test_a_file_size_limit_is_one_sentence_and_loses_only_the_last_step(tmp_path: Path) -> None:
    path = _made(tmp_path)
    usual, begun = resource.getrlimit(resource.RLIMIT_FSIZE), list[str]()

    def fill(store: KernelStore) -> None:
        while True:
            begun.append(
                store.begin_campaign(name="x" * 50_000, spec="{}", environment=ENVIRONMENT).id
            )

    with KernelStore(str(path)) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, usual[1]))
        try:
            with pytest.raises(StoreError, match=r"this shell lets a file be; raise .*ulimit -f"):
                fill(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    with KernelStore(str(path)) as store:
        assert store.statistics().rows["campaign"] == len(begun)


def test_a_quota_is_waited_for_as_a_full_disk_is(tmp_path: Path) -> None:
    full = sqlite3.OperationalError("disk I/O error")
    full.sqlite_errorname = "SQLITE_IOERR_WRITE"
    with pytest.raises(BlockedError, match="is over a quota; free some"), translated(str(tmp_path)):
        raise full
