"""What a compiled text may refer to and bring along: what Metal's library needs, nothing else.

Whatever a text says, and however it has come by it, it reaches the host through a symbol, a
constructor or a variable that outlives its launch. Each object is searched for them.
"""

import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kernelwright.metal.device.simulator.toolchain import INCLUDE, Variant
from kernelwright.metal.diagnostic import Diagnostic

_WIDENING = Path(__file__).parent / "wide"
"""Adds calls of the runtime to what clang makes."""
_BUILTIN = re.compile(r"__builtin_(\w+)")
_RUNTIME = re.compile(r"\bkw_\w+")
_PREBUILT = re.compile(r"\bKW_PREBUILT\((\w+)")
_MATH = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2", "ceil", "copysign", "cos"),
        *("cosh", "exp", "exp2", "exp10", "fabs", "floor", "fma", "fmax", "fmaximum_num", "fmin"),
        *("fminimum_num", "fmod", "frexp", "hypot", "ilogb", "ldexp", "log", "log10", "log1p"),
        *("log2", "modf", "nearbyint", "nextafter", "pow", "rint", "round", "roundeven", "sin"),
        *("sincos", "sinh", "sqrt", "tan", "tanh", "trunc"),
    )
)
"""Of the C library, that clang makes of the builtins that our headers call, and of each other."""
_MEMORY = frozenset(("memcpy", "memmove", "memset", "memcmp", "bcmp"))
_INSTRUMENTS = (
    *("__tsan_", "__ubsan_handle_", "kw_misaligned_copy", "kw_instance", "kw_set_instance"),
    *("kw_path", "kw_enter_round", "kw_come_to", "kw_return_from"),
    *("__sanitizer_cov_", "__start___", "__stop___"),
)
_INSTRUMENTED: frozenset[Variant] = frozenset(("sanitize", "count", "vet", "branches"))
_WRITTEN_IN: dict[Variant, frozenset[str]] = {
    "plain": frozenset(("kw_path_end",)),
    "metered": frozenset(("kw_path_end", "kw_work_left", "kw_work_spent")),
}
"""What a build's rewritten listing tells the runtime, besides calls."""
_MANGLED = re.compile(r"_Z(?:N|L|NK)?(\d+)(\w+)")
_CONSTRUCTORS = (b".init_array", b".preinit_array", b".fini_array", b".ctors", b".dtors")
# ELF-64, https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html and ch4.symtab.html
_SYMBOL_TABLE, _NO_BITS = 2, 8
_WRITE, _THREAD_LOCAL = 1, 0x400
# Mach-O, <mach-o/loader.h> and <mach-o/nlist.h>
_MACH_MAGIC, _MACH_SYMBOLS, _MACH_TYPE, _MACH_DEBUG = 0xFEEDFACF, 2, 0x0E, 0xE0


@cache
def _library_symbols() -> frozenset[str]:
    sources = (*INCLUDE.rglob("*"), *_WIDENING.glob("*.py"))
    texts = [path.read_text() for path in sources if path.is_file()]
    builtins = {name for text in texts for name in _BUILTIN.findall(text)}
    runtime = {name for text in texts for name in _RUNTIME.findall(text)}
    prebuilt = {name for text in texts for name in _PREBUILT.findall(text)}
    runtime |= {f"kw_prebuilt_{dense}{name}" for name in prebuilt for dense in ("", "dense_")}
    math = {f"{name}{suffix}" for name in _MATH for suffix in ("", "f")}
    return frozenset(builtins | runtime | math) | _MEMORY | {"_GLOBAL_OFFSET_TABLE_"}


def foreign_parts(built: Path, variant: Variant) -> tuple[Diagnostic, ...]:
    """Say what an object refers to, or brings along, that no Metal kernel can have."""
    data = built.read_bytes()
    is_elf = data[:4] == b"\x7fELF"
    undefined = set(_elf_undefined(data) if is_elf else _mach_undefined(data))
    found = [_undefined(name) for name in sorted(undefined) if not _is_known(name, variant)]
    if is_elf:
        found += [Diagnostic(message=message) for message in _elf_extras(data, variant)]
    return tuple(found)


def _is_known(name: str, variant: Variant) -> bool:
    if name in _library_symbols() or name in _WRITTEN_IN.get(variant, ()):
        return True
    return variant in _INSTRUMENTED and name.startswith(_INSTRUMENTS)


def _undefined(symbol: str) -> Diagnostic:
    mangled = _MANGLED.match(symbol)
    name = mangled[2][: int(mangled[1])] if mangled else symbol
    if name.startswith("_"):
        # A function of the compiler's own library, such as of 128-bit floats or of `new`.
        return Diagnostic(message=f"a type or an operation needs {name}, which Metal has not.")
    return Diagnostic(message=f"{name} is used and has no definition; define it in the header.")


def _elf_sections(data: bytes) -> list[tuple[bytes, tuple[int, ...]]]:
    """Return names and headers: name, type, flags, address, offset, size, link, info."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    first = struct.unpack_from("<IIQQQQII", data, table)
    # More sections than the header can number.
    count, names = count or first[5], first[6] if names == 0xFFFF else names
    headers = [struct.unpack_from("<IIQQQQII", data, table + i * size) for i in range(count)]
    start = headers[names][4]
    return [(_text(data, start + header[0]), header) for header in headers]


def _elf_undefined(data: bytes) -> Iterator[str]:
    sections = _elf_sections(data)
    for _, (_, kind, _, _, offset, length, link, _) in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][1][4]
        entries = struct.iter_unpack("<IBBHQQ", data[offset : offset + length])
        for name, _, _, section, _, _ in entries:
            if section == 0 and name:
                yield _text(data, names + name).decode(errors="replace")


def _elf_extras(data: bytes, variant: Variant) -> Iterator[str]:
    """Name what runs by itself and what outlives a launch.

    Instrumentation has both, so that only a plain build shows what the text itself brings.
    """
    if variant in _INSTRUMENTED:
        return
    for name, (_, _, flags, _, _, size, _, _) in _elf_sections(data):
        if name.startswith(_CONSTRUCTORS):
            yield "a variable is initialised before the kernel runs; use a constant expression."
        elif flags & _THREAD_LOCAL or (flags & _WRITE and size and _is_variable(name)):
            yield "a variable outlives its launch; declare it in the kernel, or as constant."


def _is_variable(section: bytes) -> bool:
    # Constants that hold addresses are written once, by the loader.
    return not section.startswith((b".data.rel.ro", b".note", b".eh_frame"))


def _text(data: bytes, start: int) -> bytes:
    return data[start : data.index(0, start)]


def _mach_undefined(data: bytes) -> Iterator[str]:
    magic, _, _, _, commands = struct.unpack_from("<5I", data)
    if magic != _MACH_MAGIC:
        return
    place = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, place)
        if command == _MACH_SYMBOLS:
            symbols, count, names, _ = struct.unpack_from("<4I", data, place + 8)
            for entry in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", data, symbols + entry * 16)
                if not kind & (_MACH_TYPE | _MACH_DEBUG) and not value:
                    # Every name of C begins with an underscore there.
                    yield _text(data, names + name).decode(errors="replace")[1:]
        place += size
