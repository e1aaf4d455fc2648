"""Rewritten copies of the files that a Metal text includes."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from os.path import normpath
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.metal.device.simulator.toolchain import (
    INCLUDE,
    cache_path,
    digest_of,
    publish,
    workspace,
)
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.msl.diagnose import Place
from kernelwright.metal.msl.macro import Macros
from kernelwright.metal.msl.rewrite import Rewritten, rewrite
from kernelwright.metal.msl.threadgroup_variable import NumberedVariable

_RULES = Path(__file__).parents[2] / "msl"
"""What decides how a text is rewritten."""


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
        if is_metal_header(name):
            return None
        path = self._find(name, beside)
        return None if path is None else str(self.copy_of(path.resolve()))

    def has(self, name: str, beside: Path | None = None) -> bool:
        """Say whether a text may include a file."""
        return is_metal_header(name) or self._find(name, beside) is not None

    def _find(self, name: str, beside: Path | None) -> Path | None:
        """Return a file within the folders: nothing else of the machine may be read."""
        folders = (*((beside,) if beside is not None else ()), *self.folders)
        roots = [_normal(folder) for folder in self.folders]
        for path in (_normal(folder / name) for folder in folders):
            if any(path.is_relative_to(root) for root in roots) and path.is_file():
                return path
        return None

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
            is_known=lambda name: self.has(name, path.parent),
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


def is_metal_header(name: str) -> bool:
    """Say whether a name is of a header that comes with Metal's compiler."""
    is_own = name.startswith("kw/")
    return not is_own and (name.startswith(("metal_", "simd/")) or _comes_along(name))


def _comes_along(name: str) -> bool:
    path = _normal(INCLUDE / name)
    return path.is_relative_to(_normal(INCLUDE)) and path.is_file()


def _normal(path: Path) -> Path:
    """Return an absolute path without `..`; links stay what they are."""
    return Path(normpath(path.absolute()))


def mirrored_header(name: str, folders: Sequence[Path]) -> Path | None:
    """Return the rewritten copy of a header alone; None where no folder has it.

    Rewriting MLX's own takes a fifth of a second, so a record in the cache says which copy was made
    of which files, for every later process that finds these as they were.
    """
    path = next((f / name for f in folders if (f / name).is_file()), None)
    if path is None:
        return None
    rules = digest_of(_RULES, "*.py"), digest_of(Path(__file__).parent, Path(__file__).name)
    key = hashlib.sha256("\0".join((str(path.resolve()), *rules)).encode()).hexdigest()[:24]
    record = cache_path() / "includes" / f"{key}.json"
    if (known := _recorded(record)) is not None:
        return known
    mirror = Mirror(folders)
    copy = mirror.copy_of(path.resolve())
    kept = _Record(made=copy, files={f.path: _state(f.path) for f in mirror.files})
    # A worker reads the shared cache and may not write there.
    with suppress(DeviceError, OSError), workspace() as folder:
        (folder / record.name).write_text(kept.model_dump_json())
        publish(folder / record.name, record)
    return copy


class _Record(Record):
    """A header's copy, with the size and the time of each file that it was made of."""

    made: Path
    files: dict[Path, tuple[int, int]]


def _recorded(record: Path) -> Path | None:
    """Return the copy that a record names if it is still made of the same files."""
    try:
        known = _Record.model_validate_json(record.read_text())
        is_current = all(_state(path) == state for path, state in known.files.items())
    except (OSError, ValidationError):
        return None
    return known.made if is_current and known.made.is_file() else None


def _state(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes, and when it was changed in nanoseconds."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _published(text: str, name: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    copy = cache_path() / "includes" / f"{digest}-{name}"
    if not copy.is_file():
        with workspace() as folder:
            (folder / name).write_text(text)
            publish(folder / name, copy)
    return copy
