"""The folder that exports go to: it keeps an index, and overwrites nothing that is not its own."""

import hashlib
import re
from pathlib import Path

from pydantic import Field, ValidationError

from kernelwright.errors import InputError
from kernelwright.file_write import replace_file
from kernelwright.metal.diagnostic import Record

INDEX = "kernelwright.json"
"""Lists the exports of a folder and the hash of every file as it was written."""
SHARED = "VERIFICATION.md"
"""What every export adds its own section to."""
_TITLE = "# What is known about these exports\n"


class ExportedFile(Record):
    """One file of an export: text, or bytes where the format is binary."""

    name: str
    """May hold folders, separated by slashes."""
    text: str = ""
    data: bytes | None = None

    @property
    def content(self) -> bytes:
        """What stands in the file."""
        return self.text.encode() if self.data is None else self.data


class _Entry(Record):
    identity: str
    """What was exported; another export of it takes its place, one of anything else does not."""
    title: str
    files: dict[str, str]
    """The hash of each file as it was written, by its path in the folder."""


class _Index(Record):
    format: str = "kernelwright.exports/1"
    exports: dict[str, _Entry] = Field(default_factory=dict)


class ExportFolder:
    """A folder with exports, in which other people's files may stand."""

    def __init__(self, path: Path) -> None:
        """Read the folder's index, where there is one.

        Raises:
            InputError: the index is not one, or cannot be read.
        """
        if path.exists() and not path.is_dir():
            raise InputError(
                f"expected a folder to write to, found the file {path}; choose another."
            )
        self.path = path
        self._index = _read(path / INDEX)

    def name_for(
        self, wanted: str, identity: str, *, is_asked_for: bool = False, force: bool = False
    ) -> str:
        """Return the name itself, or with a number where another export or file has it.

        Args:
            wanted: the name.
            identity: what is exported.
            is_asked_for: the user gave the name, which no number may change.
            force: a file that is not Kernelwright's is overwritten, and takes no name.

        Raises:
            InputError: a name that was asked for is taken.
        """
        name, number = wanted, 1
        while self._is_taken(name, identity, force=force):
            if is_asked_for:
                raise InputError(f"{wanted!r} is taken in {self.path}; {self._advice(wanted)}")
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _is_taken(self, name: str, identity: str, *, force: bool) -> bool:
        if known := self._exports_called(name):
            return not known.intersection((identity, _hash(identity.encode())))
        file = f"{name}.py"
        return not force and (self.path / file).exists() and not self._owner_of(file)

    def _exports_called(self, name: str) -> set[str]:
        # Macs tell no capital letters apart in file names.
        return {
            e.identity
            for key, e in self._index.exports.items()
            if key.partition(" ")[0].lower() == name.lower()
        }

    def _advice(self, name: str) -> str:
        is_by_an_export = bool(self._exports_called(name))
        or_force = "" if is_by_an_export else ", or add --force to overwrite the file"
        return f"choose another --name or folder{or_force}."

    def write(
        self,
        name: str,
        files: tuple[ExportedFile, ...],
        *,
        identity: str,
        title: str,
        force: bool = False,
    ) -> tuple[Path, ...]:
        """Write an export's files, and its section of VERIFICATION.md; return their paths.

        Raises:
            InputError: a file is not Kernelwright's, was changed since, or belongs to another
                export; `force` overwrites the first two.
        """
        alone = [f for f in files if f.name != SHARED]
        for file in alone:
            self._check(name, file, force=force)
        sections = [f for f in files if f.name == SHARED]
        if sections and not force:
            self._check_shared()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            paths = [_write(self.path / f.name, f.content) for f in alone]
            self._forget(name, {f.name for f in alone})
            hashes = {f.name: _hash(f.content) for f in alone}
            entry = _Entry(identity=_hash(identity.encode()), title=title, files=hashes)
            self._index = _Index(exports={**self._index.exports, name: entry})
            if sections:
                paths.append(self._write_shared(name, sections[0].text))
            _write(self.path / INDEX, (self._index.model_dump_json(indent=2) + "\n").encode())
        except OSError as e:
            raise InputError(
                f"expected a folder to write to, found {str(self.path)!r} ({e.strerror}); "
                "choose another with -o."
            ) from e
        return tuple(paths)

    def _owner_of(self, file: str) -> str | None:
        lowered = file.lower()
        return next(
            (n for n, e in self._index.exports.items() if lowered in map(str.lower, e.files)), None
        )

    def _check(self, name: str, file: ExportedFile, *, force: bool) -> None:
        path, owner = self.path / file.name, self._owner_of(file.name)
        if owner is not None and owner != name:
            raise InputError(
                f"{path} belongs to the export {owner!r}; choose another --name, or another folder."
            )
        if force or not path.exists():
            return
        if path.is_dir():
            raise InputError(f"expected no folder at {path}, found one; choose another --name.")
        found = _hash(path.read_bytes())
        if found == _hash(file.content):
            return
        if owner is None:
            raise InputError(
                f"{path} was not written by Kernelwright; choose another --name or folder, or add "
                "--force to overwrite it."
            )
        if found != self._index.exports[owner].files.get(file.name, found):
            raise InputError(
                f"{path} was changed since Kernelwright wrote it; add --force to overwrite it."
            )

    def _check_shared(self) -> None:
        path = self.path / SHARED
        if path.exists() and not _is_shared(path):
            raise InputError(
                f"{path} was not written by Kernelwright; choose another folder, or add --force "
                "to add to it."
            )

    def _forget(self, name: str, kept: set[str]) -> None:
        """Remove what an earlier export of this name wrote and nobody changed."""
        before = self._index.exports.get(name)
        for file, digest in (before.files if before else {}).items():
            path = self.path / file
            if file not in kept and path.is_file() and _hash(path.read_bytes()) == digest:
                path.unlink()

    def _write_shared(self, name: str, section: str) -> Path:
        path = self.path / SHARED
        text = path.read_text(encoding="utf-8") if path.exists() else _TITLE
        text = _with_section(text, "index", self._table())
        return _write(path, _with_section(text, f"export {name}", section).encode())

    def _table(self) -> str:
        rows = [
            f"| `{name}` | {entry.title} | {', '.join(f'`{f}`' for f in entry.files)} |"
            for name, entry in sorted(self._index.exports.items())
        ]
        return "\n".join(["| export | what it is | files |", "|---|---|---|", *rows])


def _with_section(text: str, name: str, section: str) -> str:
    begin, end = f"<!-- kernelwright: {name} -->", f"<!-- /kernelwright: {name} -->"
    block = f"{begin}\n{section.strip()}\n{end}"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", text, flags=re.DOTALL)
    if found:
        return text[: found.start()] + block + text[found.end() :]
    return f"{text.rstrip()}\n\n{block}\n"


def _is_shared(path: Path) -> bool:
    return "<!-- kernelwright: " in path.read_text(encoding="utf-8", errors="replace")


def _read(path: Path) -> _Index:
    try:
        return _Index.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _Index()
    except (OSError, ValidationError, ValueError) as e:
        raise InputError(
            f"expected the index of Kernelwright's exports in {path}, found something else; "
            "choose another folder."
        ) from e


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)
    return path
