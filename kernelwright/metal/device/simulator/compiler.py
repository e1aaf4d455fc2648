"""Metal text to a shared object of this machine, kept by content."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.mirror import Mirror
from kernelwright.metal.device.simulator.record import ThreadgroupVariable
from kernelwright.metal.device.simulator.toolchain import (
    DIAGNOSTIC_FLAGS,
    Variant,
    cache_path,
    flags,
    link,
    precompiled_header,
    publish,
    run,
    workspace,
)
from kernelwright.metal.diagnostic import CompileError, Diagnostic, Severity
from kernelwright.metal.msl.diagnose import Place, diagnose
from kernelwright.metal.msl.refuse import refuse
from kernelwright.metal.msl.rewrite import FunctionConstant, Rewritten, rewrite
from kernelwright.metal.msl.signature import Entry, Parameter

Prelude = Literal["metal", "mlx"]
"""What stands before the text: nothing, or the headers that MLX puts before every kernel."""

_SYMBOL = re.compile(rb"kw_entry:([^:\0]+):([^\0]+)\0")
_METAL_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)[ \t]*<(?:metal_|simd/)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text under the name by which its diagnostics call it."""

    file: str
    text: str


@dataclass(frozen=True)
class Image:
    """A compiled library, ready to load."""

    path: Path
    variant: Variant
    entries: tuple[Entry, ...]
    variables: tuple[ThreadgroupVariable, ...]
    warnings: tuple[Diagnostic, ...] = ()


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

    def place(self, line: int, column: int) -> Place:
        """Map a place of the joined, unedited text to its section."""
        index = max(i for i, start in enumerate(self.starts) if start <= line)
        return Place(self.sections[index].file, line - self.starts[index] + 1, column)


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
    joined = "".join(texts)
    starts, line = [], 1
    for text in texts:
        starts.append(line)
        line += text.count("\n")
    mirror = Mirror((*folders, *mlx_folders()))
    rewritten = rewrite(joined, file="", variables=mirror.variables, include=mirror.include)
    unit = Unit(tuple(sections), prelude, rewritten, mirror, tuple(starts))
    if found := refuse(rewritten):
        raise CompileError(tuple(_placed(unit, d) for d in found))
    return unit


def compile_unit(
    unit: Unit, variant: Variant, constants: Mapping[int, int | float] | None = None
) -> Image:
    """Compile and link, or take what an earlier run made of the same text.

    Args:
        unit: What `prepare` returned.
        variant: The kind of build.
        constants: Values of function constants, by index.

    Raises:
        CompileError: clang refuses the text.
        DeviceError: the compiler failed.
    """
    text = _final_text(unit, constants or {})
    header = precompiled_header(_prelude_text(unit.prelude), variant)
    key = hashlib.sha256(
        "\0".join((text, header.stem, *flags(variant), *DIAGNOSTIC_FLAGS)).encode()
    ).hexdigest()[:32]
    output = cache_path() / "libraries" / key[:2] / f"{key}.so"
    record = output.with_suffix(".json")
    if not (output.is_file() and record.is_file()):
        warnings = _build(unit, text, header, variant, output)
        _write_record(record, warnings)
    warnings = tuple(
        Diagnostic.model_validate(d) for d in json.loads(record.read_text())["warnings"]
    )
    return Image(output, variant, _entries(output, unit.kernels), _variables(unit), warnings)


def _write_record(record: Path, warnings: tuple[Diagnostic, ...]) -> None:
    with workspace() as folder:
        written = folder / "record.json"
        written.write_text(json.dumps({"warnings": [d.model_dump(mode="json") for d in warnings]}))
        publish(written, record)


def _build(
    unit: Unit, text: str, header: Path, variant: Variant, output: Path
) -> tuple[Diagnostic, ...]:
    with workspace() as folder:
        source, built = folder / "kernel.cpp", folder / "kernel.o"
        source.write_text(text)
        command = ["clang", "-x", "c++", *flags(variant), *DIAGNOSTIC_FLAGS]
        command += ["-include-pch", str(header)]
        status, said = run([*command, "-c", str(source), "-o", str(built)])
        found = _diagnostics(unit, said)
        if status != 0:
            errors = [d for d in found if d.severity is not Severity.WARNING]
            if not any(d.severity is Severity.ERROR for d in errors):
                raise DeviceError(f"the compiler failed: {said.strip()[:300]}")
            raise CompileError(tuple(errors))
        if variant == "count":
            listing = folder / "kernel.ll"
            run([*command, "-S", "-emit-llvm", str(source), "-o", str(listing)])
            publish(listing, output.with_suffix(".so.ll"))
        link([built], folder / "kernel.so")
        publish(folder / "kernel.so", output)
    return found


def _final_text(unit: Unit, constants: Mapping[int, int | float]) -> str:
    """Put sections under their names and the values of function constants on top."""
    lines = unit.rewritten.edited.text.split("\n")
    parts = [f"#define KW_CONSTANT_{c.index} {constants.get(c.index, 0)}\n"
             f"#define KW_CONSTANT_DEFINED_{c.index} {int(c.index in constants)}\n"
             for c in {c.index: c for c in unit.constants}.values()]  # fmt: skip
    stops = (*(start - 1 for start in unit.starts[1:]), len(lines))
    for section, start, stop in zip(unit.sections, unit.starts, stops, strict=True):
        name = section.file.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'#line 1 "{name}"\n' + "\n".join(lines[start - 1 : stop]) + "\n")
    return "".join(parts)


def _diagnostics(unit: Unit, said: str) -> tuple[Diagnostic, ...]:
    names = {s.file: i for i, s in enumerate(unit.sections)}

    def locate(place: Place) -> Place | None:
        if place.file in names:
            line = place.line + unit.starts[names[place.file]] - 1
            return unit.place(line, unit.rewritten.edited.column(line, place.column))
        return unit.mirror.locate(place)

    sources = {s.file: s.text.split("\n") for s in unit.sections}
    return diagnose(said, locate=locate, sources=sources | unit.mirror.sources)


def _placed(unit: Unit, diagnostic: Diagnostic) -> Diagnostic:
    """Move a diagnostic of the joined text to its section."""
    place = unit.place(diagnostic.line, diagnostic.column)
    lines = unit.rewritten.edited.original.split("\n")
    return diagnostic.model_copy(
        update={
            "file": place.file,
            "line": place.line,
            "source_line": lines[diagnostic.line - 1],
        }
    )


def _entries(path: Path, kernels: Mapping[str, tuple[Parameter, ...]]) -> tuple[Entry, ...]:
    found = dict.fromkeys(_SYMBOL.findall(path.read_bytes()))
    return tuple(
        Entry(host.decode(), f"kw_entry:{kernel.decode()}:{host.decode()}", kernel.decode(),
              kernels.get(kernel.decode(), ()))
        for kernel, host in found
    )  # fmt: skip


def _variables(unit: Unit) -> tuple[ThreadgroupVariable, ...]:
    found = []
    for v in unit.mirror.variables:
        place = Place(v.file, v.line, v.column) if v.file else unit.place(v.line, v.column)
        found.append(ThreadgroupVariable(v.name, place.file, place.line))
    return tuple(found)


@cache
def mlx_folders() -> tuple[Path, ...]:
    """Return where MLX's wheel keeps its headers; empty when MLX is not installed."""
    from importlib.util import find_spec

    spec = find_spec("mlx")
    folders = spec.submodule_search_locations or [] if spec is not None else []
    return tuple(Path(f) / "include" for f in folders if (Path(f) / "include").is_dir())


@cache
def _prelude_text(prelude: Prelude) -> str:
    text = '#include "kw/prelude.h"\n'
    if prelude == "metal":
        return text
    mirror = Mirror(mlx_folders())
    utils = mirror.include("mlx/backend/metal/kernels/utils.h")
    if utils is None:
        raise DeviceError("MLX's Metal headers are missing; reinstall the package mlx.")
    return f'{text}#include "{utils}"\n'
