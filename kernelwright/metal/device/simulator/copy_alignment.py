"""Questions whether the addresses of copied vectors and structs are aligned as their types need.

Clang asks so at each load of a number and each reference, and not where `*(device float4*)(x + 1)`
is copied whole. Once optimised, such a copy may be four loads of a float each.
"""

import re

_NAME = r"%(?:\"[^\"]*\"|[-\w$.]+)"
_FUNCTION = re.compile(r"^define .* (#\d+) ")
_WATCHED = re.compile(r"^attributes (#\d+) = \{.*\bsanitize_thread\b", re.MULTILINE)
_VARIABLE = re.compile(rf"^  ({_NAME}) = alloca ")
_COPY = re.compile(r"^  (?:tail )?call void @llvm\.mem(?:cpy|move|set)\.[\w.]+\(")
_OPERAND = re.compile(rf"\bptr (?:[a-z]\w* )*?align (\d+) ({_NAME})")
_PLACE = re.compile(r", !dbg !\d+")
# Our own: arguments are cast by way of kw_ulong, and entries take a `struct kw_thread`.
_TYPE = re.compile(
    r"\b(?:(?:struct|class|union)\b(?! kw_)|vec\b|bfloat|[a-z]\w*[234](?:x[234])?\b)"
)
_CAST = re.compile(
    r"\*\s*(?:(?:const|volatile)\s*)*(?:\)(?!\(kw_ulong\))|>)|\b(?:decltype|typedef|typename|using)\b"
)
_QUESTION = """
define internal void @kw_ask_alignment(ptr %0, i64 %1) alwaysinline nounwind {
  %3 = ptrtoint ptr %0 to i64
  %4 = sub i64 %1, 1
  %5 = and i64 %3, %4
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %8, label %7

7:
  call void @kw_misaligned_copy(i64 %3, i64 %1)
  br label %8

8:
  ret void
}

declare void @kw_misaligned_copy(i64, i64)
"""


def may_copy_misaligned(text: str) -> bool:
    """Return whether a text names a vector or a struct, and may make a pointer to it by a cast."""
    return bool(_TYPE.search(text) and _CAST.search(text))


def with_copy_questions(listing: str) -> str:
    """Return a listing that is not optimised yet with a question before each copy of an aggregate.

    What a function copies from and to its own variables needs none: these are aligned. Neither
    does what hands a kernel its arguments, which is not watched.
    """
    watched = frozenset(_WATCHED.findall(listing))
    lines = list[str]()
    variables, asks = set[str](), False
    for line in listing.split("\n"):
        if found := _FUNCTION.match(line):
            variables.clear()
            asks = found[1] in watched
        elif found := _VARIABLE.match(line):
            variables.add(found[1])
        elif asks and _COPY.match(line):
            place = _PLACE.search(line)
            lines += (
                f"  call void @kw_ask_alignment(ptr {pointer}, i64 {alignment})"
                f"{place[0] if place else ''}"
                for alignment, pointer in _OPERAND.findall(line)
                if pointer not in variables and int(alignment) > 1
            )
        lines.append(line)
    return "\n".join((*lines, _QUESTION))
