"""A Metal text made ready for clang: rewritten, with the way back to its own lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from kernelwright.metal.device.simulator.mirror import Mirror
from kernelwright.metal.device.simulator.record import ThreadgroupVariable
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.msl.diagnose import Place, diagnose
from kernelwright.metal.msl.refuse import refuse
from kernelwright.metal.msl.rewrite import FunctionConstant, Rewritten, rewrite
from kernelwright.metal.msl.signature import Parameter

Prelude = Literal["metal", "mlx"]
"""What stands before the text: nothing, or the headers that MLX puts before every kernel."""

_METAL_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)[ \t]*<(?:metal_|simd/)", re.MULTILINE
)
_WAITS = re.compile(r"\b(?:simd_\w+|simdgroup_\w+|quad_\w+|threadgroup_barrier|threadgroup)\b")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text under the name by which its diagnostics call it."""

    file: str
    text: str
    shown: str = ""
    """The text whose lines diagnostics quote, where it is not `text` itself."""

    @property
    def lines(self) -> list[str]:
        """The lines that diagnostics quote; a text that goes on after `shown` has its own."""
        own = self.text.split("\n")
        shown = self.shown.split("\n") if self.shown else []
        return [*shown, *own[len(shown) :]]


@dataclass(frozen=True)
class Unit:
    """Sections joined into one rewritten text, not compiled yet."""

    sections: tuple[Section, ...]
    prelude: Prelude
    rewritten: Rewritten
    mirror: Mirror
    starts: tuple[int, ...]
    """First line of each section in the joined text."""

    @property
    def constants(self) -> tuple[FunctionConstant, ...]:
        """The function constants of the text and of the files it includes."""
        included = (c for f in self.mirror.files for c in f.rewritten.constants)
        return (*self.rewritten.constants, *included)

    @property
    def kernels(self) -> dict[str, tuple[Parameter, ...]]:
        """Parameters of every kernel function, by the function's name."""
        kernels = dict(self.rewritten.kernels)
        for file in self.mirror.files:
            kernels |= file.rewritten.kernels
        return kernels

    @property
    def variables(self) -> tuple[ThreadgroupVariable, ...]:
        """The threadgroup variables; their places are their ids."""
        found = []
        for v in self.mirror.variables:
            place = Place(v.file, v.line, v.column) if v.file else self.place(v.line, v.column)
            found.append(ThreadgroupVariable(v.name, place.file, place.line))
        return tuple(found)

    @property
    def may_wait(self) -> bool:
        """Say whether a thread may have to wait for others, as far as the words tell."""
        texts = (self.rewritten, *(f.rewritten for f in self.mirror.files))
        return any(_WAITS.search(text.edited.original) for text in texts)

    def place(self, line: int, column: int) -> Place:
        """Map a place of the joined, unedited text to its section."""
        index = max(i for i, start in enumerate(self.starts) if start <= line)
        return Place(self.sections[index].file, line - self.starts[index] + 1, column)

    def text(self, constants: Mapping[int, int | float], *, rows: bool) -> str:
        """Return what clang compiles.

        Args:
            constants: Values of function constants, by index.
            rows: Whether each kernel also gets an entry that runs a row of threads.
        """
        lines = self.rewritten.edited.text.split("\n")
        parts = [f"#define KW_ROW_ENTRY {'KW_EXPORT_ROW' if rows else 'KW_NO_ROW'}\n"]
        for index in dict.fromkeys(c.index for c in self.constants):
            parts.append(f"#define KW_CONSTANT_{index} {constants.get(index, 0)}\n")
            parts.append(f"#define KW_CONSTANT_DEFINED_{index} {int(index in constants)}\n")
        stops = (*(start - 1 for start in self.starts[1:]), len(lines))
        for section, start, stop in zip(self.sections, self.starts, stops, strict=True):
            name = section.file.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'#line 1 "{name}"\n' + "\n".join(lines[start - 1 : stop]) + "\n")
        return "".join(parts)

    def diagnostics(self, said: str) -> tuple[Diagnostic, ...]:
        """Read clang's output as diagnostics of the sections and of included files."""
        names = {s.file: i for i, s in enumerate(self.sections)}

        def locate(place: Place) -> Place | None:
            if place.file in names:
                line = place.line + self.starts[names[place.file]] - 1
                return self.place(line, self.rewritten.edited.column(line, place.column))
            return self.mirror.locate(place)

        sources = {s.file: s.lines for s in self.sections}
        return diagnose(said, locate=locate, sources=sources | self.mirror.sources)

    def placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """Move a diagnostic of the joined text to its section."""
        place = self.place(diagnostic.line, diagnostic.column)
        lines = next(s.lines for s in self.sections if s.file == place.file)
        return diagnostic.model_copy(
            update={
                "file": place.file,
                "line": place.line,
                "source_line": lines[place.line - 1],
            }
        )


def prelude_for(text: str) -> Prelude:
    """Guess what a text expects before it: a plain Metal file includes the standard library."""
    return "metal" if _METAL_INCLUDE.search(text) else "mlx"


def prepare(sections: Sequence[Section], *, prelude: Prelude, folders: Sequence[Path] = ()) -> Unit:
    """Rewrite a text.

    Args:
        sections: The text's parts, in order.
        prelude: What stands before it.
        folders: Where `#include "…"` looks, before MLX's own headers.

    Raises:
        CompileError: Metal refuses the text for what its tokens say.
    """
    texts = [s.text if s.text.endswith("\n") else s.text + "\n" for s in sections]
    starts, line = [], 1
    for text in texts:
        starts.append(line)
        line += text.count("\n")
    mirror = Mirror((*folders, *mlx_folders()))
    rewritten = rewrite("".join(texts), file="", variables=mirror.variables, include=mirror.include)
    unit = Unit(tuple(sections), prelude, rewritten, mirror, tuple(starts))
    if found := refuse(rewritten):
        raise CompileError(tuple(unit.placed(d) for d in found))
    return unit


@cache
def mlx_folders() -> tuple[Path, ...]:
    """Return where MLX's wheel keeps its headers; empty when MLX is not installed."""
    spec = find_spec("mlx")
    folders = spec.submodule_search_locations or [] if spec is not None else []
    return tuple(Path(f) / "include" for f in folders if (Path(f) / "include").is_dir())
