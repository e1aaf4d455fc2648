"""A store whose file is moved, removed or replaced while it is open says so at the next use."""

from pathlib import Path

import pytest

from kernelwright.errors import StoreError
from kernelwright.store import KernelStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kernels.db"


def test_a_store_that_was_moved_is_missed(path: Path) -> None:
    with KernelStore(str(path)) as store:
        assert store.campaigns() == ()
        moved = path.rename(path.with_name("moved.db"))
        with pytest.raises(StoreError, match="was moved or removed while it was open; put it back"):
            store.statistics()
        moved.rename(path)
        assert store.campaigns() == ()


def test_a_store_that_was_replaced_is_not_read_on(path: Path) -> None:
    with KernelStore(str(path)) as store:
        store.statistics()
        path.rename(path.with_name("moved.db"))
        path.write_text("garbage")
        with pytest.raises(StoreError, match="was replaced by another file while it was open"):
            store.campaigns()


def test_nothing_is_written_to_a_store_that_was_removed(path: Path) -> None:
    with KernelStore(str(path)) as store:
        store.statistics()
        path.unlink()
        with pytest.raises(StoreError, match="was moved or removed"):
            store.log("a campaign", "Kind", "{}")


def test_a_store_that_was_removed_is_not_made_anew(path: Path) -> None:
    with KernelStore(str(path)) as store:
        store.statistics()
        path.unlink()
        with pytest.raises(StoreError, match="was moved or removed"):
            store.campaigns()
        with pytest.raises(StoreError, match="was moved or removed"):
            store.campaigns()
    assert not path.exists()


def test_a_relative_path_means_the_same_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with KernelStore("kernels.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert store.campaigns() == ()


def test_a_name_that_no_file_can_have_is_one_sentence() -> None:
    with pytest.raises(StoreError, match="without NUL"):
        KernelStore("\0")
