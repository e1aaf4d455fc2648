"""A worker starts only beside the code that asks for it."""

from pathlib import Path

import pytest

from kernelwright.errors import OutdatedError
from kernelwright.evaluator.worker import own_code
from kernelwright.evaluator.worker.start import open_worker


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_no_worker_starts_beside_changed_code(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "prelude.h").write_text("int one;")
    monkeypatch.setattr(own_code, "_FOLDER", tmp_path)
    monkeypatch.setattr(own_code, "_AT_START", dict(own_code._stamps(tmp_path)))
    (tmp_path / "room" / "notes.txt").write_text("no code")
    own_code.check_own_code()

    if change == "edit":
        (tmp_path / "room" / "prelude.h").write_text("int other;")
    elif change == "add":
        (tmp_path / "new.py").touch()
    else:
        (tmp_path / "room" / "prelude.h").unlink()

    with pytest.raises(OutdatedError, match="changed or upgraded while it ran"):
        open_worker("simulator", 1 << 30)
