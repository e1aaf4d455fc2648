"""Listings of the sanitizing build, whose marks of memory accesses outlive optimisation."""

import re
from collections.abc import Iterator

from kernelwright.metal.device.simulator.wide.assembly import Module, UnknownAssemblyError
from kernelwright.metal.device.simulator.wide.origin import Origins

MARK = re.compile(r"^@__tsan_(unaligned_)?(?:volatile_)?(read_write|read|write)(\d+)$")
MARKED = re.compile(r"^@__tsan_(?!init$)")
SUSPECT = "@kw_suspect"
_ENTRY = re.compile(r'^@"(?:\\01_?)?kw_entry:')
_MARKED = re.compile(r"^  (?:tail )?call void (@__tsan_\w+)\(")
_COPY = re.compile(
    r"^  (%\S+) = (?:tail )?call ptr @__tsan_mem(?:cpy|move)\((ptr .*), (ptr .*), i64 (\d+)\)"
)
_SET = re.compile(
    r"^  (%\S+) = (?:tail )?call ptr @__tsan_memset\((ptr .*), i(?:8|32) (.*), i64 (\d+)\)"
)
_HANDLER = re.compile(
    r"^  (?:tail )?call void @(?:__ubsan_handle_\w+|kw_misaligned_copy|kw_vector_\w+"
    r"|llvm\.(?:ubsan)?trap)\(.*$"
)
_DIVISION = re.compile(r"^  (%\S+ = [us](?:div|rem) (?:exact )?(i\d+) \S+, )(%[^,\s]+)(.*)$")
_SHIFT = re.compile(
    r"^  (%\S+ = (?:shl|lshr|ashr) (?:(?:nuw|nsw|exact) )*i(\d+) \S+, )(%[^,\s]+)(.*)$"
)
_ARGUMENT = re.compile(r"^  %\S+ = load ptr, ptr %\S+, align 8$")
_UNWANTED = re.compile(r"\b(?:noinline|sanitize_thread|inlinehint|optnone) ")
_ASSUMED = re.compile(
    r"\b(?:noundef|nonnull|align \d+|dereferenceable(?:_or_null)?\(\d+\)|dead_on_return) "
)
_PROMISES = re.compile(r"\b(?:memory\([^)]*\)|willreturn|nosync|nofree|norecurse) ?")
# Not willreturn: what follows a suspicion may be undefined, and must not take it along.
_DECLARED = "memory(inaccessiblemem: readwrite) nounwind"
_ALIGNMENT = 16
_THREAD_BYTES = 120
"""Of kw_thread."""


def prepare(listing: str) -> str:
    """Return an instrumented listing in which all that an entry calls can become one function.

    What undefined behaviour would report becomes a suspicion, and is then given a meaning, so
    that no optimisation can conclude that it does not happen.
    """
    module = Module.read(listing)
    entries = frozenset(name for name in module.spans if _ENTRY.match(name))
    silent = _silent(module, entries)
    number = max((int(n) for n in re.findall(r"^!(\d+) = ", listing, re.MULTILINE)), default=0) + 1
    lines: list[str] = []
    inside, end = "", -1
    starts = {first: (name, last) for name, (first, last) in module.spans.items()}
    for place, line in enumerate(module.lines):
        if place in starts:
            inside, end = starts[place]
            line = _head(line, is_entry=inside in entries)
        elif place > end:
            inside = ""
        if inside in silent:
            if _MARKED.match(line):
                continue
            line = line.replace("@__tsan_mem", "@mem")
        elif (copied := _plain_copy(line)) is not None:
            lines += copied
            continue
        lines += _made_safe(line, len(lines), f", !align !{number}" if inside in entries else "")
    lines.append(f"!{number} = !{{i64 {_ALIGNMENT}}}")
    text = "\n".join(lines)
    return "\n".join((text, *_declarations(text), ""))


def _plain_copy(line: str) -> list[str] | None:
    """Return a copy of known size after its marks; None for other lines."""
    if found := _COPY.match(line):
        result, to, source, size = found.groups()
        marks = [f"  call void @__tsan_unaligned_read{size}({source})"]
        copy = f"  call void @llvm.memmove.p0.p0.i64({to}, {source}, i64 {size}, i1 false)"
    elif found := _SET.match(line):
        result, to, value, size = found.groups()
        if not value.isdigit():
            return None
        marks = []
        copy = f"  call void @llvm.memset.p0.i64({to}, i8 {value}, i64 {size}, i1 false)"
    else:
        return None
    marks.append(f"  call void @__tsan_unaligned_write{size}({to})")
    name = to.split()[-1]
    return [*marks, copy, f"  {result} = getelementptr i8, ptr {name}, i64 0"]


def _declarations(text: str) -> list[str]:
    """Declare what is called since the listing was made."""
    wanted = {
        "llvm.memmove.p0.p0.i64": "void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
        "llvm.memset.p0.i64": "void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "memcpy": "ptr @memcpy(ptr, ptr, i64)",
        "memmove": "ptr @memmove(ptr, ptr, i64)",
        "memset": "ptr @memset(ptr, i32, i64)",
        SUSPECT[1:]: f"void {SUSPECT}() {_DECLARED}",
    }
    for name in re.findall(r"call void @(__tsan_unaligned_(?:read|write)\d+)\(", text):
        wanted[name] = f"void @{name}(ptr captures(none)) {_DECLARED} willreturn"
    known = set(re.findall(r"^(?:declare|define) .*?@([\w.]+)\(", text, re.MULTILINE))
    used = set(re.findall(r"@([\w.]+)\(", text))
    return [f"declare {wanted[name]}" for name in wanted if name in used - known]


def _silent(module: Module, entries: frozenset[str]) -> frozenset[str]:
    """Return the functions that only the runtime calls: they combine what lanes publish."""
    combines = frozenset(
        name
        for text in module.lines
        if "@kw_simdgroup(" in text
        for name in re.findall(r'ptr (?:noundef |nonnull )*(@(?:"[^"]*"|[-\w$.]+))', text)
    )
    own = _reachable_without(module, entries, combines)
    return (module.reachable(combines) & frozenset(module.spans)) - own


def _reachable_without(
    module: Module, entries: frozenset[str], combines: frozenset[str]
) -> frozenset[str]:
    found, pending = set(entries), list(entries)
    while pending:
        more = module.references(pending.pop()) - combines - found
        more = frozenset(name for name in more if name in module.spans)
        found |= more
        pending += more
    return frozenset(found)


def _head(line: str, *, is_entry: bool) -> str:
    # What a caller must see to is among what is checked, so it is not to be relied on.
    return (
        line
        if is_entry
        else re.sub(r"( #\d+)", r" alwaysinline\1", _ASSUMED.sub("", line), count=1)
    )


def _made_safe(line: str, number: int, aligned: str) -> Iterator[str]:
    """Give a line a meaning whatever its operands are."""
    if line.startswith("attributes #"):
        line = _UNWANTED.sub("", line)
    elif line.startswith("declare void @__tsan_") and "ptr" in line:
        name = line[line.index("@") : line.index("(")]
        if MARK.match(name):
            line = f"declare void {name}(ptr captures(none)) {_DECLARED} willreturn"
    elif _HANDLER.match(line):
        line = f"  call void {SUSPECT}()"
    elif found := _DIVISION.match(line):
        before, type_, divisor, after = found.groups()
        yield f"  %kw.zero{number} = icmp eq {type_} {divisor}, 0"
        yield f"  %kw.safe{number} = select i1 %kw.zero{number}, {type_} 1, {type_} {divisor}"
        line = f"  {before}%kw.safe{number}{after}"
    elif found := _SHIFT.match(line):
        before, width, amount, after = found.groups()
        yield f"  %kw.safe{number} = and i{width} {amount}, {int(width) - 1}"
        line = f"  {before}%kw.safe{number}{after}"
    elif " call " in line:
        line = _ASSUMED.sub("", line)
        line = line.replace("ptr @kw_threadgroup_alloc(", "align 64 ptr @kw_threadgroup_alloc(")
        line = line.replace("ptr @kw_current(", "align 16 ptr @kw_current(")
    elif _ARGUMENT.match(line):
        line += aligned
    elif "llvm.loop.unroll.disable" in line:
        # Only said to an optimiser that does little; this listing meets one that does more.
        line = line.replace("llvm.loop.unroll.disable", "llvm.loop.kw")
    yield line


def without_own_marks(listing: str) -> str:
    """Drop the marks of accesses that stay inside a thread's own variables, which then dissolve."""
    module = Module.read(listing)
    dropped: set[int] = set()
    for name, (first, last) in module.spans.items():
        if not any(_MARKED.match(line) for line in module.lines[first:last]):
            continue
        try:
            origins = Origins(module, module.function(name))
        except UnknownAssemblyError:
            continue
        dropped |= {n for n in range(first, last) if _is_own(module, origins, module.lines[n])}
    return "\n".join(line for n, line in enumerate(module.lines) if n not in dropped)


def _is_own(module: Module, origins: Origins, line: str) -> bool:
    called = _MARKED.match(line)
    mark = MARK.match(called[1]) if called else None
    pointer = re.search(r'(%(?:"[^"]*"|[-\w$.]+))\)', line)
    if mark is None or pointer is None:
        return False
    origin, offset = origins.of(pointer[1]), origins.offset(pointer[1])
    if origin is None or offset is None:
        return False
    if origin.kind == "attributes":
        return mark[2] == "read" and 0 <= offset <= _THREAD_BYTES - int(mark[3])
    if origin.kind != "stack":
        return False
    found = re.match(r"alloca (.*), align (\d+)$", origins.definitions[origin.name].text)
    if found is None:
        return False
    try:
        size = module.layout(found[1])[0]
    except (UnknownAssemblyError, ValueError):
        return False
    width, alignment = int(mark[3]), int(found[2])
    needed = 1 if mark[1] else min(width, 8)
    is_aligned = offset % needed == 0 and alignment >= needed
    return is_aligned and 0 <= offset <= size - width


def without_promises(listing: str) -> str:
    """Forget what was concluded of functions that are about to change."""
    return "\n".join(
        _PROMISES.sub("", line) if _is_of_definitions(line) else line
        for line in listing.split("\n")
    )


def _is_of_definitions(line: str) -> bool:
    return line.startswith("attributes #") and '"target-cpu"' in line
