"""Cuts Metal source into pieces by kind, for highlighting; what it does not know stays plain."""

import re
from collections.abc import Iterator

from kernelwright.metal.kernel import Kernel, Program
from kernelwright.service.api.record import SourceLine, SourceText, Span

_KEYWORDS = (
    "alignas auto break case const constexpr continue default do else enum extern for goto if "
    "inline namespace nullptr return sizeof static static_assert struct switch template typedef "
    "typename union using volatile while true false device constant thread threadgroup "
    "threadgroup_imageblock kernel"
)
_TYPES = (
    r"(?:bool|char|short|int|long|uchar|ushort|uint|ulong|half|float|double|bfloat|size_t|void|"
    r"u?int(?:8|16|32|64)_t|bfloat16_t|float16_t|complex64_t|simdgroup_\w+|atomic_\w+)[234]?\b"
)
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*"?)'
    r"|(?P<directive>^[ \t]*#(?:[^\n\\]|\\.|\\\n)*)"
    r"|(?P<number>\b(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[a-zA-Z]{0,3}\b\.?)"
    rf"|(?P<keyword>\b(?:{'|'.join(_KEYWORDS.split())})\b)"
    rf"|(?P<type>\b{_TYPES})"
    r"|(?P<builtin>\b(?:metal::\w+(?:::\w+)?|simd_\w+|threadgroup_barrier|fast::\w+|precise::\w+|"
    r"mem_flags|thread_position_in_\w+|threads_per_\w+|thread_index_in_\w+|threadgroup_position_in_"
    r"\w+|simdgroup_index_in_\w+|(?:exp|log|rsqrt|sqrt|fma|min|max|clamp|select|abs|tanh|erf)"
    r"(?=\s*\()))",
    re.DOTALL | re.MULTILINE,
)
_MOST_CHARACTERS = 400_000
"""Longer text stays plain."""


def highlighted(text: str) -> tuple[SourceLine, ...]:
    """Return the lines of a source, each cut into pieces; joined they are the text again."""
    lines: list[list[Span]] = [[]]
    for kind, piece in _pieces(text):
        first, *rest = piece.split("\n")
        if first:
            lines[-1].append(Span(kind=kind, text=first))
        lines.extend([Span(kind=kind, text=part)] if part else [] for part in rest)
    return tuple(map(tuple, lines))


def sources_of(program: Program) -> tuple[SourceText, ...]:
    """Return every kernel's own text and its launch."""
    return tuple(
        SourceText.model_validate(
            {"kernel": kernel.name, "part": part, "lines": highlighted(text.strip("\n"))}
        )
        for kernel in program.kernels
        for part, text in (
            ("launch", _launch(kernel)),
            ("header", kernel.header),
            ("source", kernel.source),
        )
        if text.strip()
    )


def _launch(kernel: Kernel) -> str:
    """Write how a kernel is launched, a line for each thing that candidates differ in."""
    lines = [
        f"inputs {', '.join(kernel.inputs)}",
        f"outputs {', '.join(kernel.outputs)}",
        f"grid {' x '.join(map(str, kernel.grid))}",
        f"threadgroup {' x '.join(map(str, kernel.threadgroup))}",
        *(f"template {name} = {value}" for name, value in kernel.template.items()),
        f"math {kernel.math_mode}",
    ]
    return "\n".join(lines)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    if len(text) > _MOST_CHARACTERS:
        yield "", text
        return
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() > end:
            yield "", text[end : match.start()]
        yield match.lastgroup or "", match[0]
        end = match.end()
    if end < len(text):
        yield "", text[end:]
