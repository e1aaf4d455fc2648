"""A header is rewritten once for all processes, and again when one of its files has changed."""

from pathlib import Path

import pytest

from kernelwright.metal.device.simulator import mirror
from kernelwright.metal.device.simulator.mirror import mirrored_header


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outer.h").write_text('#include "inner.h"\nfloat outer();\n')
    (tmp_path / "inner.h").write_text("float inner();\n")
    return tmp_path


def test_a_header_that_is_as_it_was_is_not_rewritten_again(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    first = mirrored_header("outer.h", (folder,))
    monkeypatch.setattr(mirror, "rewrite", None)

    assert first is not None
    assert mirrored_header("outer.h", (folder,)) == first


def test_a_header_is_rewritten_when_a_file_that_it_includes_has_changed(folder: Path) -> None:
    first = mirrored_header("outer.h", (folder,))
    (folder / "inner.h").write_text("float inner(float);\n")

    assert mirrored_header("outer.h", (folder,)) != first


def test_a_header_that_no_folder_has_is_none(folder: Path) -> None:
    assert mirrored_header("absent.h", (folder,)) is None
