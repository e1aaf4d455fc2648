"""Rewritten copies of the files that a Metal text includes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.metal.device.simulator.toolchain import INCLUDE, cache_path, publish, workspace
from kernelwright.metal.msl.diagnose import Place
from kernelwright.metal.msl.macro import Macros
from kernelwright.metal.msl.rewrite import Rewritten, rewrite
from kernelwright.metal.msl.threadgroup_variable import NumberedVariable


@dataclass(frozen=True)
class MirroredFile:
    """An included file and its rewritten copy in the cache."""

    path: Path
    copy: Path
    rewritten: Rewritten


@dataclass
class Mirror:
    """Resolves a text's `#include`s; every file is rewritten once."""

    folders: Sequence[Path]
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES
    """What the variables of a threadgroup may take together."""
    files: list[MirroredFile] = field(default_factory=list)
    variables: list[NumberedVariable] = field(default_factory=list)
    """Those of every included file and of the text itself; places are ids."""
    macros: Macros = field(default_factory=Macros)
    """Those of every included file."""
    _done: dict[Path, Path] = field(default_factory=dict)

    def include(self, name: str, beside: Path | None = None) -> str | None:
        """Return the copy to include in place of `name`; None leaves the directive alone."""
        if name.startswith(("metal_", "simd/")) or (INCLUDE / name).is_file():
            return None
        folders = (*((beside,) if beside is not None else ()), *self.folders)
        path = next((f / name for f in folders if (f / name).is_file()), None)
        return None if path is None else str(self.copy_of(path.resolve()))

    def copy_of(self, path: Path) -> Path:
        """Return the rewritten copy of one file; its name is its content's digest."""
        if path in self._done:
            return self._done[path]
        # A file that is included again from within itself has its include guard by then.
        self._done[path] = _published("", "empty.h")
        rewritten = rewrite(
            path.read_text(errors="replace"),
            file=path.name,
            variables=self.variables,
            include=lambda name: self.include(name, path.parent),
            threadgroup_bytes=self.threadgroup_bytes,
            macros=self.macros,
        )
        copy = _published(f'#line 1 "{path}"\n{rewritten.edited.text}', path.name)
        self._done[path] = copy
        self.files.append(MirroredFile(path, copy, rewritten))
        return copy

    def locate(self, place: Place) -> Place | None:
        """Map a place in a mirrored file to the column of its original."""
        for file in self.files:
            if place.file == str(file.path):
                column = file.rewritten.edited.column(place.line, place.column)
                return Place(place.file, place.line, column)
        return None

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """Lines of every original, by path."""
        return {str(f.path): f.rewritten.edited.original.split("\n") for f in self.files}


def _published(text: str, name: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    copy = cache_path() / "includes" / f"{digest}-{name}"
    if not copy.is_file():
        with workspace() as folder:
            (folder / name).write_text(text)
            publish(folder / name, copy)
    return copy
