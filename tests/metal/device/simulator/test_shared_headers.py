"""A worker that only reads the shared headers builds one that is missing among its own."""

from pathlib import Path

import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator import toolchain


def test_a_header_goes_to_the_workers_own_where_the_shared_folder_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, written = "#pragma once\n", toolchain.publish

    def refusing(built: Path, output: Path) -> None:
        if output.parent.name == "headers":
            raise DeviceError(f"the cache {output.parent} cannot be written: Read-only file system")
        written(built, output)

    monkeypatch.setattr(toolchain, "cache_path", lambda: tmp_path)
    monkeypatch.setattr(toolchain, "publish", refusing)
    header = toolchain.precompiled_header(text, "plain")
    assert header.parent == tmp_path / "libraries"
    assert header.with_suffix(".h").read_text() == text
    assert toolchain.precompiled_header(text, "plain") == header
