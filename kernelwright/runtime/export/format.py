"""What an export is, and the Protocol that every format of one fulfils."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export.folder import SHARED, ExportedFile, ExportFolder
from kernelwright.runtime.export.selection import Selection

__all__ = ["ExportedFile", "ExportedModule", "Format"]


class ExportedModule(Record):
    """What an export consists of, before anything is written."""

    name: str
    files: tuple[ExportedFile, ...]
    is_verified: bool

    identity: str = ""
    """What was exported: another export of the same takes its place in a folder."""
    title: str = ""
    use: str = ""
    """The line that imports it, where it is not its format's."""
    kind: str = "module"
    """The format; a folder may hold a function in several."""

    remarks: tuple[str, ...] = ()
    """Sentences on what is not kept, such as a stream of the CPU."""

    def in_its_own_folder(self) -> "ExportedModule":
        """Return it below a folder of its name; its part of VERIFICATION.md goes along, too."""
        shared = [f for f in self.files if f.name == SHARED]
        below = [f.model_copy(update={"name": f"{self.name}/{f.name}"}) for f in self.files]
        return self.model_copy(update={"files": (*below, *shared)})

    def write(self, folder: Path, *, force: bool = False) -> tuple[Path, ...]:
        """Write the files; return their paths.

        Raises:
            InputError: the folder cannot be written to, or a file there is somebody else's and
                `force` is not set.
        """
        return ExportFolder(folder).write(
            self.name if self.kind == "module" else f"{self.name} ({self.kind})",
            self.files,
            identity=self.identity or self.name,
            title=self.title,
            force=force,
        )


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
