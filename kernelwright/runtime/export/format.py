"""What an export is, and the Protocol that every format of one fulfils."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export.selection import Selection


class ExportedFile(Record):
    """One file of an export: text, or bytes where the format is binary."""

    name: str
    """May hold folders, separated by slashes."""
    text: str = ""
    data: bytes | None = None


class ExportedModule(Record):
    """What an export consists of, before anything is written."""

    name: str
    files: tuple[ExportedFile, ...]
    is_verified: bool

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the files; return their paths.

        Raises:
            InputError: the folder cannot be written to.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return tuple(_written(folder / file.name, file) for file in self.files)
        except OSError as e:
            raise InputError(
                f"expected a folder to write to, found {str(folder)!r} ({e.strerror}); "
                "choose another with -o."
            ) from e


class Format(Protocol):
    """One way of taking kernels along.

    Everything selected was admitted already; what is not verified must say so in its files.
    """

    takes_several: bool
    """True when one export serves several kernels of one function."""

    def files(self, selections: Sequence[Selection]) -> tuple[ExportedFile, ...]:
        """Return the files of an export.

        Raises:
            UnsupportedError: the kernels cannot be expressed in this format.
            InputError: the kernels do not fit together.
        """

    def use(self, name: str) -> str:
        """Return the line that shows how the export is used."""


def _written(path: Path, file: ExportedFile) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.data is None:
        path.write_text(file.text)
    else:
        path.write_bytes(file.data)
    return path
