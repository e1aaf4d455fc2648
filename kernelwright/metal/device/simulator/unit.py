"""A Metal text made ready for clang: rewritten, with the way back to its own lines."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, FastError
from kernelwright.metal.device.simulator.alignment import may_be_wide
from kernelwright.metal.device.simulator.element import SCALARS
from kernelwright.metal.device.simulator.expand import expand, included_lines
from kernelwright.metal.device.simulator.internal_name import internal_names
from kernelwright.metal.device.simulator.mirror import Mirror
from kernelwright.metal.device.simulator.record import OwnVariable, ThreadgroupVariable
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.kernel import MathMode
from kernelwright.metal.msl.diagnose import Place, diagnose
from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.include import point_includes
from kernelwright.metal.msl.language import DEFAULT, LanguageVersion, version_macros
from kernelwright.metal.msl.macro_size import excessive_sizes
from kernelwright.metal.msl.method import hides_members
from kernelwright.metal.msl.refuse import refuse
from kernelwright.metal.msl.rewrite import FunctionConstant, Rewritten, rewrite
from kernelwright.metal.msl.signature import Parameter
from kernelwright.metal.msl.threadgroup_variable import NumberedVariable
from kernelwright.metal.msl.token import tokenize

_WORST = "template <> struct kw_math::fast_setting<0> { static constexpr bool is_worst = true; };\n"
Prelude = Literal["metal", "mlx"]
"""What stands before the text: nothing, or the headers that MLX puts before every kernel."""

_METAL_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)[ \t]*<(?:metal_|simd/)", re.MULTILINE
)
_LINE_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:line[ \t]+\w|\d).*$", re.MULTILINE)
_BYTE_ORDER_MARK = "\ufeff"
_ROW_MACROS = {True: "KW_EXPORT_ROW", False: "KW_NO_ROW"}
_PADDING_MACROS = {True: "KW_EXPORT_PADDING", False: "KW_NO_ROW"}
_NAME = re.compile(r"\**([A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*)*)(?![\w(])")
"""Of a variable or member that an expression begins with; a function's is none."""
_MOST_FOUND = 20
_CHOICES = frozenset(("define", "if", "ifdef", "ifndef"))
"""Directives by which a text follows its grammar only once it has been preprocessed."""
_WAITS = re.compile(
    r"\b(?:simd_\w+|simdgroup_\w+|quad_\w+|threadgroup_barrier|threadgroup|matmul2d\w*|"
    r"\w*cooperative_tensor)\b"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text under the name by which its diagnostics call it."""

    file: str
    text: str
    shown: str = ""
    """The text whose lines diagnostics quote, where it is not `text` itself."""
    first_line: int = 1
    """Where the part begins in its file."""

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
    unset: Sequence[NumberedVariable]
    """Variables of the text's threads that are declared without a value; places are numbers."""
    starts: tuple[int, ...]
    """First line of each section in the joined text."""
    sources: Mapping[str, Sequence[str]]
    """Lines that diagnostics quote, by file."""
    math_mode: MathMode = "safe"
    language: LanguageVersion = DEFAULT
    fast_error: FastError = "usual"
    sees_addresses: bool = True
    """The text may compute with addresses, as no candidate may."""

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
    def callers(self) -> Counter[str]:
        """How many functions the front end has added for each kernel's name."""
        return sum((f.rewritten.callers for f in self.mirror.files), self.rewritten.callers)

    @property
    def variables(self) -> tuple[ThreadgroupVariable, ...]:
        """The threadgroup variables; their places are their ids."""
        found = []
        for v in self.mirror.variables:
            place = Place(v.file, v.line, v.column) if v.file else self.place(v.line, v.column)
            found.append(ThreadgroupVariable(v.name, place.file, place.line))
        return tuple(found)

    @property
    def unset_variables(self) -> tuple[OwnVariable, ...]:
        """What threads declare without a value; their places are their numbers."""
        places = (self.place(v.line, v.column) for v in self.unset)
        return tuple(
            OwnVariable(v.name, p.file, p.line, p.column)
            for v, p in zip(self.unset, places, strict=True)
        )

    @property
    def may_wait(self) -> bool:
        """Say whether a thread may have to wait for others, as far as the words tell."""
        texts = (self.rewritten, *(f.rewritten for f in self.mirror.files))
        return any(_WAITS.search(text.edited.original) for text in texts)

    def place(self, line: int, column: int) -> Place:
        """Map a place of the joined, unedited text to its section."""
        index = max(i for i, start in enumerate(self.starts) if start <= line)
        section = self.sections[index]
        return Place(section.file, line - self.starts[index] + section.first_line, column)

    @property
    def may_have_padding(self) -> bool:
        """Say whether a buffer's elements may have bytes that no member takes.

        A kernel that shares its name with another function cannot be asked.
        """
        texts = (self.rewritten, *(f.rewritten for f in self.mirror.files))
        names = Counter(f.name for text in texts for f in text.structure.functions)
        buffers = (p for ps in self.kernels.values() for p in ps if p.kind == "buffer")
        return any(p.type not in SCALARS for p in buffers) and all(
            names[name] <= 1 for name in self.kernels
        )

    @cached_property
    def needs_width(self) -> bool:
        """Say whether it may have elements that are aligned to more than 16 bytes."""
        texts = (self.rewritten.edited.original, *_own_files(self.mirror).values())
        return any(map(may_be_wide, texts))

    def text(
        self, constants: Mapping[int, int | float], *, rows: bool, padding: bool = False
    ) -> str:
        """Return what clang compiles.

        Args:
            constants: Values of function constants, by index.
            rows: Whether kernels that never wait also get an entry that runs a row of threads;
                those that are templates get it only where nothing in the text waits.
            padding: Whether kernels tell which bytes of their buffers' elements are padding.
        """
        lines = self.rewritten.edited.text.split("\n")
        instance_rows = rows and not self.may_wait
        parts = [
            f"#define KW_ROW_ENTRY {_ROW_MACROS[rows]}\n",
            f"#define KW_ROW_INSTANCE {_ROW_MACROS[instance_rows]}\n",
            f"#define KW_PADDING_ENTRY {_PADDING_MACROS[padding and self.may_have_padding]}\n",
        ]
        if self.language != DEFAULT:
            for name, value in version_macros(self.language).items():
                definition = "" if value is None else f"#define {name} {value}\n"
                parts.append(f"#undef {name}\n{definition}")
        for index in dict.fromkeys(c.index for c in self.constants):
            parts.append(f"#define KW_CONSTANT_{index} {constants.get(index, 0)}\n")
            parts.append(f"#define KW_CONSTANT_DEFINED_{index} {int(index in constants)}\n")
        if self.fast_error == "worst":
            parts.append(_WORST)
        stops = (*(start - 1 for start in self.starts[1:]), len(lines))
        for section, start, stop in zip(self.sections, self.starts, stops, strict=True):
            parts += [line_marker(section), "\n".join(lines[start - 1 : stop]), "\n"]
        return "".join(parts)

    def diagnostics(self, said: str) -> tuple[Diagnostic, ...]:
        """Read clang's output as diagnostics of the sections and of included files."""
        return diagnose(said, locate=self.located, sources={**self.mirror.sources, **self.sources})

    def located(self, place: Place) -> Place | None:
        """Map a place that clang names to the column of the unedited text."""
        for section, start in zip(self.sections, self.starts, strict=True):
            last = section.first_line + section.text.count("\n")
            if section.file == place.file and section.first_line <= place.line <= last:
                line = place.line - section.first_line + start
                return self.place(line, self.rewritten.edited.column(line, place.column))
        return self.mirror.locate(place)

    def name_at(self, file: str, line: int, column: int) -> str:
        """Return the name that the text has where clang names a place; empty for none."""
        place = self.located(Place(file, line, column))
        lines = {**self.mirror.sources, **self.sources}.get(place.file, ()) if place else ()
        if place is None or not 0 < place.line <= len(lines):
            return ""
        text, start = lines[place.line - 1], max(place.column - 1, 0)
        found = _NAME.match(text, start)
        is_member = text[:start].rstrip().endswith((".", "->"))
        return found[1] if found and not is_member else ""

    def placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """Move a diagnostic of the joined text to its section."""
        place = self.place(diagnostic.line, diagnostic.column)
        lines = self.sources.get(place.file, ())
        shown = lines[place.line - 1] if place.line <= len(lines) else ""
        return diagnostic.model_copy(
            update={"file": place.file, "line": place.line, "source_line": shown}
        )


def line_marker(section: Section) -> str:
    """Write the directive by which clang knows where a section comes from."""
    name = section.file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {section.first_line} "{name}"\n'


def prelude_for(text: str) -> Prelude:
    """Guess what a text expects before it: a plain Metal file includes the standard library."""
    return "metal" if _METAL_INCLUDE.search(text) else "mlx"


def prepare(
    sections: Sequence[Section],
    *,
    prelude: Prelude,
    folders: Sequence[Path] = (),
    math_mode: MathMode = "safe",
    language: LanguageVersion = DEFAULT,
    fast_error: FastError = "usual",
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    sees_addresses: bool = True,
) -> Unit:
    """Rewrite a text.

    Args:
        sections: The text's parts, in order.
        prelude: What stands before it.
        folders: Where `#include "…"` looks, before MLX's own headers.
        math_mode: What the compiler may assume of floats.
        language: The version that the text is compiled at.
        fast_error: How far off `fast::` functions are.
        threadgroup_bytes: What a threadgroup may take.
        sees_addresses: Whether it may compute with addresses.

    Raises:
        CompileError: Metal refuses the text for what its tokens say.
    """
    sources = {s.file: s.lines for s in sections}
    sections = [replace(s, text=_own_lines(s.text)) for s in sections]
    mirror = Mirror((*folders, *mlx_folders()), threadgroup_bytes)
    unit = _joined(sections, prelude, mirror, sources)
    if found_early := _internal_names(unit) or _excess(unit):
        raise CompileError(found_early)
    found = refuse(unit.rewritten, language)
    if (reason := _reason_to_expand(unit, found)) is not None:
        expanded = expand(
            "".join(line_marker(s) + _guarded(_whole(s), mirror) for s in sections),
            (*folders, *mlx_folders()),
            language,
        )
        parts = [Section(p.file, p.text, first_line=p.first_line) for p in expanded]
        mirror = Mirror((*folders, *mlx_folders()), threadgroup_bytes)
        whole = _joined(parts, prelude, mirror, sources | included_lines(expanded, sources))
        # A text that is no better so keeps its own columns.
        if reason != "doubt" or not whole.rewritten.structure.is_doubtful:
            unit, found = whole, _excess(whole) or refuse(whole.rewritten, language)
    if found:
        raise CompileError(tuple(unit.placed(d) for d in found))
    unit = replace(unit, fast_error=fast_error)
    return replace(unit, math_mode=math_mode, language=language, sees_addresses=sees_addresses)


def _internal_names(unit: Unit) -> tuple[Diagnostic, ...]:
    """Return what the text names and may not, and the files of its own that it includes."""
    files = _own_files(unit.mirror)
    text = unit.rewritten.edited.original
    found = [unit.placed(d) for d in internal_names(text, list(files.values()))]
    for name, included in files.items():
        lines, others = included.split("\n"), [text, *files.values()]
        found += [
            d.model_copy(update={"file": name, "source_line": lines[d.line - 1]})
            for d in internal_names(included, others)
        ]
    return tuple(found[:_MOST_FOUND])


def _excess(unit: Unit) -> tuple[Diagnostic, ...]:
    """Return what of a text is too large to compile."""
    text, files = unit.rewritten, [f.rewritten.tokens for f in unit.mirror.files]
    return tuple(unit.placed(d) for d in excessive_sizes(text.tokens, text.structure, files))


def _own_files(mirror: Mirror) -> dict[str, str]:
    """Return the texts of included files by path, but for MLX's own."""
    libraries = [folder.resolve() for folder in mlx_folders()]
    return {
        str(f.path): f.rewritten.edited.original
        for f in mirror.files
        if not any(f.path.is_relative_to(library) for library in libraries)
    }


def _reason_to_expand(
    unit: Unit, found: Sequence[Diagnostic]
) -> Literal["kernels", "parameters", "doubt"] | None:
    """Say what macros hide from the front end, if they hide anything."""
    texts = (unit.rewritten, *(f.rewritten for f in unit.mirror.files))
    if any(
        text.has_kernels_in_macros
        or _hides_keywords(text)
        or hides_members(text.structure, text.tokens)
        for text in texts
    ):
        return "kernels"
    if not any(t.directive in _CHOICES for text in texts for t in text.tokens):
        return None
    if any(d.message.startswith("invalid type") for d in found):
        return "parameters"
    return "doubt" if unit.rewritten.structure.is_doubtful else None


def _hides_keywords(text: Rewritten) -> bool:
    """Say whether macros stand for words that the simulator rewrites."""
    hidden = text.structure.hidden.values()
    return any({"kernel", "threadgroup"} & set(body.split()) for body in hidden)


def _joined(
    sections: Sequence[Section],
    prelude: Prelude,
    mirror: Mirror,
    sources: Mapping[str, Sequence[str]],
) -> Unit:
    """Rewrite sections as one text."""
    texts = [_whole(s) for s in sections]
    starts, line = [], 1
    for text in texts:
        starts.append(line)
        line += text.count("\n")
    unset: list[NumberedVariable] = []
    rewritten = rewrite(
        "".join(texts),
        file="",
        variables=mirror.variables,
        unset=unset,
        include=mirror.include,
        is_known=mirror.has,
        threadgroup_bytes=mirror.threadgroup_bytes,
        macros=mirror.macros,
    )
    return Unit(tuple(sections), prelude, rewritten, mirror, unset, tuple(starts), sources)


def _guarded(text: str, mirror: Mirror) -> str:
    """Return a text that reads no file but those of the folders and Metal's own."""
    editor = Editor(text)

    def include(name: str) -> str | None:
        return name if mirror.has(name) else None

    for _ in point_includes(text, tokenize(text), editor, include, mirror.has):
        pass
    return editor.finish().text


def _own_lines(text: str) -> str:
    """Return a text whose lines count as they stand, without a mark of its encoding."""
    return _LINE_DIRECTIVE.sub("", text.removeprefix(_BYTE_ORDER_MARK))


def _whole(section: Section) -> str:
    """Return a section's text with its last line ended."""
    return section.text if section.text.endswith("\n") else section.text + "\n"


@cache
def mlx_folders() -> tuple[Path, ...]:
    """Return where MLX's wheel keeps its headers; empty when MLX is not installed."""
    spec = find_spec("mlx")
    folders = spec.submodule_search_locations or [] if spec is not None else []
    return tuple(Path(f) / "include" for f in folders if (Path(f) / "include").is_dir())
