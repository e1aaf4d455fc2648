"""What a folder held before an export, it holds afterwards."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.runtime.export.folder import INDEX, SHARED, ExportedFile, ExportFolder


def _files(name: str, text: str = "text\n") -> tuple[ExportedFile, ...]:
    return (
        ExportedFile(name=f"{name}.py", text=text),
        ExportedFile(name=SHARED, text=f"# {name}\n"),
    )


def _write(folder: Path, name: str, text: str = "text\n", *, force: bool = False) -> None:
    ExportFolder(folder).write(name, _files(name, text), identity=name, title=name, force=force)


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rope.py").write_text("mine\n")
    with pytest.raises(InputError, match=r"rope\.py was not written by Kernelwright"):
        _write(tmp_path, "rope")
    assert (tmp_path / "rope.py").read_text() == "mine\n"
    assert not (tmp_path / INDEX).exists()


def test_a_verification_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / SHARED).write_text("mine\n")
    with pytest.raises(InputError, match=r"VERIFICATION\.md was not written by Kernelwright"):
        _write(tmp_path, "rope")
    assert not (tmp_path / "rope.py").exists()


def test_a_file_that_was_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    _write(tmp_path, "rope")
    (tmp_path / "rope.py").write_text("edited\n")
    with pytest.raises(InputError, match="was changed since Kernelwright wrote it"):
        _write(tmp_path, "rope", "newer\n")
    _write(tmp_path, "rope", "newer\n", force=True)
    assert (tmp_path / "rope.py").read_text() == "newer\n"


def test_each_export_adds_to_the_verification(tmp_path: Path) -> None:
    _write(tmp_path, "rope")
    _write(tmp_path, "norm")
    _write(tmp_path, "rope", "newer\n")
    text = (tmp_path / SHARED).read_text()
    assert text.count("# rope\n") == text.count("# norm\n") == 1
    assert "| `norm` |" in text
    assert "| `rope` |" in text


@pytest.mark.parametrize("taken", ["rope", "Rope"])
def test_two_exports_never_share_a_file(tmp_path: Path, taken: str) -> None:
    _write(tmp_path, taken)
    folder = ExportFolder(tmp_path)
    assert folder.name_for("rope", "another task") == "rope_2"
    assert folder.name_for(taken, taken) == taken
    (tmp_path / "norm.py").write_text("mine\n")
    assert folder.name_for("norm", "a task") == "norm_2"
    assert folder.name_for("norm", "a task", force=True) == "norm"
    assert folder.name_for("rope", "another task", force=True) == "rope_2"


def test_a_name_that_was_asked_for_gets_no_number(tmp_path: Path) -> None:
    _write(tmp_path, "rope")
    (tmp_path / "norm.py").write_text("mine\n")
    folder = ExportFolder(tmp_path)
    with pytest.raises(InputError, match=r"'norm' is taken in .*, or add --force to overwrite"):
        folder.name_for("norm", "a task", is_asked_for=True)
    assert folder.name_for("norm", "a task", is_asked_for=True, force=True) == "norm"
    for force in (False, True):
        with pytest.raises(InputError, match=r"'rope' is taken in .*; choose another --name or f"):
            folder.name_for("rope", "a task", is_asked_for=True, force=force)
    assert folder.name_for("rope", "rope", is_asked_for=True) == "rope"


def test_an_export_belongs_to_one_name(tmp_path: Path) -> None:
    _write(tmp_path, "rope")
    with pytest.raises(InputError, match="belongs to the export 'rope'"):
        ExportFolder(tmp_path).write("norm", _files("rope"), identity="n", title="", force=True)


def test_a_broken_index_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("{}}")
    with pytest.raises(InputError, match="expected the index of Kernelwright's exports"):
        ExportFolder(tmp_path)
