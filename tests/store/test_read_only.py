"""A store that may only be read is read, whoever owns it and whatever its log left."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from kernelwright.errors import StoreError
from kernelwright.store import KernelStore, Wanted, label_of, merge_stores, url_of
from kernelwright.store.migration import migrate
from kernelwright.store.read_only import is_read_only

_NOBODY = 65534
_WISH = Wanted(function="f", fingerprint="0" * 64, inputs=("f32[4]",), calls=1, graph_json="{}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that other users reach, with a store in it that they may not write."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        with KernelStore(str(place / "kernels.db")) as store:
            store.want([_WISH])
        place.chmod(0o555)
        (place / "kernels.db").chmod(0o444)
        yield place
        place.chmod(0o755)


def _as_nobody(work: Callable[[], str]) -> str:
    """Run in a process of a user who owns nothing; root may write everything."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            if os.geteuid() == 0:
                os.setgid(_NOBODY)
                os.setuid(_NOBODY)
            said = work()
        except BaseException as e:
            said = f"{type(e).__name__}: {e}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def test_a_store_in_a_folder_that_cannot_be_written_is_read(folder: Path) -> None:
    url = str(folder / "kernels.db")

    def read() -> str:
        with KernelStore(url, must_exist=True) as store:
            return f"{len(store.wanted())} {len(store.best())}"

    assert _as_nobody(read) == "1 0"


@pytest.mark.parametrize("version", ["0003", "0004", "0005"])
def test_an_older_store_that_may_only_be_read_is_read(folder: Path, version: str) -> None:
    older = folder / "older.db"
    folder.chmod(0o755)
    engine = create_engine(f"sqlite:///{older}")
    with engine.begin() as connection:
        migrate(connection, version)
    engine.dispose()
    older.chmod(0o444)
    folder.chmod(0o555)

    def read() -> str:
        with KernelStore(str(older), must_exist=True) as store:
            found = f"{len(store.best())} {len(store.wanted())}"
            try:
                store.want([_WISH])
            except StoreError as e:
                return f"{found} {'is read-only' in str(e)}"
            return "written"

    assert _as_nobody(read) == "0 0 True"


def test_writing_it_says_that_it_is_read_only(folder: Path) -> None:
    url = str(folder / "kernels.db")

    def write() -> str:
        with KernelStore(url, must_exist=True) as store:
            store.want([_WISH])
        return "written"

    said = _as_nobody(write)
    assert said.startswith("StoreError: the store")
    assert "is read-only; make it writable or choose another with --store" in said


def test_a_store_that_may_only_be_read_is_copied_and_merged(folder: Path) -> None:
    url = str(folder / "kernels.db")

    def copied() -> str:
        with tempfile.TemporaryDirectory() as place:
            copy, merged = Path(place) / "copy.db", Path(place) / "merged.db"
            with KernelStore(url, must_exist=True) as store:
                store.backup(copy)
            merge_stores(str(copy), url, merged)
            with KernelStore(str(merged), must_exist=True) as store:
                return str(len(store.wanted()))

    assert _as_nobody(copied) == "1"


def test_what_can_be_written_is_opened_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    assert not is_read_only(path)
    KernelStore(str(path)).close()
    assert not is_read_only(path)


_URLS = [
    "postgresql://bob:s3cret@localhost:1/x",
    "postgresql+nodriver://bob:s3cret@localhost/x",
    "postgresql://bob:s3cret@local host:port/x",
    "postgresql://bob:a?s3cret/x@localhost:1/x",
    "postgresql://localhost:1/x?password=s3cret",
    "postgresql://localhost:1/x?user=bob&password=a@s3cret",
    "mysql://bob:s3cret@host/x",
    "nonsense://bob:s3cret@host/x",
    "postgresql:/bob:s3cret@host/x",
    "bob:s3cret@host",
    "://bob:s3cret@host",
    "sqlite://bob:s3cret@host/x",
]


@pytest.mark.parametrize("url", _URLS)
def test_no_error_repeats_a_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r".") as raised:
        KernelStore(url, must_exist=True)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("url", _URLS)
def test_no_label_repeats_a_password(url: str) -> None:
    assert "s3cret" not in label_of(url_of(url))
