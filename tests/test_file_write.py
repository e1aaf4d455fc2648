"""A file is written whole or not at all."""

import errno
from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.file_write import move_file, replace_file, write_file


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "morning.html"
    path.write_text("yesterday")
    with pytest.raises(InputError, match=r"morning\.html cannot be written: No space left"):
        write_file(path, "today")
    assert path.read_text() == "yesterday"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_file_where_none_was(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "kernel.py", b"text")
    assert not list(tmp_path.iterdir())


def test_a_link_still_leads_to_what_was_written(tmp_path: Path) -> None:
    place, link = tmp_path / "place.md", tmp_path / "link.md"
    place.write_text("before")
    place.chmod(0o640)
    link.symlink_to(place)
    write_file(link, "after")
    assert link.is_symlink()
    assert place.read_text() == "after"
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to() -> None:
    write_file(Path("/dev/null"), "nothing")
    assert Path("/dev/null").is_char_device()


def test_a_file_is_moved_from_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def within_a_mount(path: Path, target: Path) -> Path:
        if path.is_relative_to(tmp_path / "mount") != target.is_relative_to(tmp_path / "mount"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", within_a_mount)
    place = tmp_path / "mount" / "library"
    place.parent.mkdir()
    made = tmp_path / "made"
    made.write_text("built")
    move_file(made, place)
    assert place.read_text() == "built"
    assert not made.exists()
    assert list(place.parent.iterdir()) == [place]
