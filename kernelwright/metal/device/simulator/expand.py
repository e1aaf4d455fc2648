"""Preprocessed Metal text, for kernels that only macros spell out."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.toolchain import (
    DIAGNOSTIC_FLAGS,
    INCLUDE,
    cache_path,
    include_digest,
    publish,
    run,
    workspace,
)
from kernelwright.metal.msl.language import DEFAULT, LanguageVersion, version_macros

_MARKER = re.compile(r'^# (?P<line>\d+) "(?P<file>(?:\\.|[^"\\])*)"')
_DEFINITIONS = ("-D__METAL__=1", "-D__METAL_MACOS__=1")


@dataclass(frozen=True, slots=True)
class ExpandedPart:
    """Lines of one file that follow each other in the preprocessed text."""

    file: str
    text: str
    first_line: int


def expand(
    text: str, folders: Sequence[Path], language: LanguageVersion = DEFAULT
) -> list[ExpandedPart]:
    """Preprocess a text but for the standard library, whose macros come later.

    A text that cannot be preprocessed comes back as far as it goes: compiling says why.
    """
    with workspace() as folder:
        source, output = folder / "text.cpp", folder / "text.i"
        source.write_text(text)
        macros = {"__cplusplus": "201703L"} | version_macros(language)
        version = [f"-D{name}={value}" for name, value in macros.items() if value is not None]
        includes = [f for path in folders for f in ("-I", str(path))]
        run(
            [
                *("clang", "-E", "-x", "c++", "-undef", "-nostdinc", *_DEFINITIONS, *version),
                *(*DIAGNOSTIC_FLAGS, "-isystem", str(_blank_library()), *includes),
                *(str(source), "-o", str(output)),
            ]
        )
        return list(_parts(output.read_text() if output.is_file() else text))


def included_lines(parts: Sequence[ExpandedPart], known: Collection[str]) -> dict[str, list[str]]:
    """Return the lines of the included files, for quoting."""
    paths = {p.file for p in parts if p.file not in known}
    return {p: Path(p).read_text().split("\n") for p in paths if Path(p).is_file()}


def _parts(text: str) -> list[ExpandedPart]:
    parts: list[ExpandedPart] = []
    file, first_line, lines = "", 1, list[str]()
    for line in (*text.split("\n"), '# 1 "end"'):
        marker = _MARKER.match(line)
        if marker is None:
            lines.append(line)
            continue
        if any(written.strip() for written in lines):
            parts.append(ExpandedPart(file, "\n".join(lines) + "\n", first_line))
        file, first_line, lines = marker["file"], int(marker["line"]), []
    return parts


@cache
def _blank_library() -> Path:
    """Return a folder with an empty file for each of the standard library's."""
    blank = cache_path() / f"blank-{include_digest()[:16]}"
    if not blank.is_dir():
        with workspace() as folder:
            made = folder / "blank"
            for path in (p for p in INCLUDE.rglob("*") if p.is_file()):
                (made / path.relative_to(INCLUDE)).parent.mkdir(parents=True, exist_ok=True)
                (made / path.relative_to(INCLUDE)).write_text("")
            try:
                publish(made, blank)
            except DeviceError:
                # Another process was faster, and its folder holds the same.
                if not blank.is_dir():
                    raise
    return blank
