"""What clang says, as Apple's compiler would say it, at the candidate's own lines."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.metal.diagnostic import Diagnostic, Severity

_LINE = re.compile(
    r"^(?P<file>[^:\n]+?):(?P<line>\d+):(?P<column>\d+): "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*?)(?: \[-W[\w+=,-]+\])?$"
)
_GLOBAL = re.compile(r"^(?:clang|zig)?:? ?(?:fatal )?error: (?P<message>.*)$")

_NOT_VIABLE = re.compile(r"^candidate function .*not viable: requires")
EXCESSIVE_MEMORY = re.compile(
    r"Threadgroup memory size \((\d+)\) exceeds the maximum threadgroup memory allowed \(\d+\)$"
)
"""The warning that a text's variables take more than a launch may have."""
_MOST_CANDIDATES = 2
"""Overloads of the standard library that say why they do not fit."""
_WORDINGS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), wording)
    for pattern, wording in (
        (r"^cannot use 'throw' with exceptions disabled$", "'throw' is not supported in Metal"),
        (
            r"^variable length arrays in C\+\+ are a Clang extension$",
            "variable length arrays are not supported in Metal",
        ),
        (
            r"^illegal initializer \(only variables can be initialized\)$",
            "variables in threadgroup memory cannot be initialized",
        ),
        (r"^cannot use 'try' with exceptions disabled$", "'try' is not supported in Metal"),
        (
            r"^'kw_threadgroup_memory<(\d+)\w*, (\d+)\w*>' is deprecated$",
            r"Threadgroup memory size (\1) exceeds the maximum threadgroup memory allowed (\2)",
        ),
        (r"^call to '[\w:]*kw_\w+\(\)' declared with 'error' attribute: ", ""),
        (r"'kw_entry:[^:']+:([^']*)'", r"'\1'"),
        (r"'kw_call_(\w+)'", r"'\1'"),
        (r"'::(\w+)'", r"'\1'"),
        (r"; did you mean '[^']*\bkw_\w*[^']*'\?$", ""),
        (
            r"^(?:unknown type name|use of undeclared identifier) 'kw_word_(\w+)'$",
            r"'\1' is not supported in Metal",
        ),
        (
            (
                r"^(?:no template named|unknown type name|use of undeclared identifier) "
                r"'((?:visible|intersection)_function_\w+|primitive_acceleration_structure"
                r"|instance_acceleration_structure|intersector|intersection_query|command_buffer"
                r"|render_command|compute_command|imageblock)'.*$"
            ),
            r"'\1' is not supported by the simulator, which runs kernels over buffers alone",
        ),
        (r"\bkw_word_", ""),
        (r"__attribute__\(\((?:address_space\(\w+\)|opencl_\w+)\)\) ?", ""),
        (r"\b__global_device\b", "device"),
        (r"\b__global_host\b", "constant"),
        (r"\b__local\b", "threadgroup"),
        (r"\bconst constant\b|\bconstant const\b", "constant"),
        (r"\b(?:_Float16|__fp16)\b", "half"),
        (r"\bmetal::bfloat\b", "bfloat"),
        (r"\b(?:metal::)?vec<(\w+), (\d)>", r"\1\2"),
        (r"\b(?:metal::)?vec<unsigned (\w+), (\d)>", r"u\1\2"),
        (r"('[\w ]+') \(aka \1\)", r"\1"),
        (r"pointer to generic address space", "pointer to address space 'thread'"),
        (
            r"^no viable conversion from '([\w ]+)' to '(\w+)'$",
            r"cannot initialize a variable of type '\2' with an rvalue of type '\1'",
        ),
        (
            r"^static assertion failed .*: (vector is not assignable .*)",
            r"\1",
        ),
        (
            r"^static assertion failed .* 'sizeof\((.+)\) == sizeof\((.+)\)': as_type.*",
            r"as_type cast from '\2' to '\1' is not allowed",
        ),
        (
            r"^static assertion failed .*'kw_has_bits<(.+)>': as_type.*",
            r"as_type takes numbers and vectors of them, found '\1'",
        ),
        (r"^static assertion failed .*: (explicit instantiation .*|elements of a .*)", r"\1"),
        (
            r"^declaration requires a global constructor$",
            (
                "a variable in constant address space must be initialized by a constant "
                "expression, and no function runs before a kernel"
            ),
        ),
        (
            r"^declaration requires a global destructor$",
            "no destructor of a program's variable and no function runs after a kernel",
        ),
        (
            r"^invalid use of member '(\w+)' in explicit object member function$",
            r"'\1' is a member whose address space the simulator does not know; write this->\1",
        ),
        (
            r"^no matching member function for call to 'kw_put_(\w+)'$",
            r"assigning to the components '\1' from an incompatible type",
        ),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a text of the candidate, counted from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class _Message:
    place: Place
    severity: Severity
    message: str


def in_apples_words(message: str) -> str:
    """Translate a message of clang's, types and all."""
    for pattern, wording in _WORDINGS:
        message = pattern.sub(wording, message)
    return message


def diagnose(
    said: str,
    *,
    locate: Callable[[Place], Place | None],
    sources: Mapping[str, Sequence[str]],
) -> tuple[Diagnostic, ...]:
    """Read clang's output.

    Args:
        said: Diagnostics without carets and colours.
        locate: Maps a place that clang names to the candidate's text; None for places in
            files that are not the candidate's, whose diagnostics move to the line that led there.
        sources: Lines of each of the candidate's texts.
    """
    found: list[Diagnostic] = []
    refused: set[Place] = set()
    for group in _groups(said):
        place = next((p for m in group if (p := locate(m.place)) is not None), None)
        head = group[0]
        if place is not None and head.severity is Severity.ERROR:
            # A second error at one place follows from clang's repair of the first.
            if place in refused:
                continue
            refused.add(place)
        elif any(d.message == head.message for d in found if not d.line):
            continue
        found.append(_diagnostic(place, head.severity, head.message, sources))
        explained: set[str] = set()
        for note in group[1:]:
            at = locate(note.place)
            is_new = note.message not in explained and len(explained) < _MOST_CANDIDATES
            if at is None and is_new and _NOT_VIABLE.match(note.message):
                at = place
                explained.add(note.message)
            if at is not None and not _is_ours(note.message):
                found.append(_diagnostic(at, Severity.NOTE, note.message, sources))
    if not found and (match := _GLOBAL.search(said)):
        found.append(Diagnostic(message=match["message"]))
    # What has no place in the candidate's text follows from what has.
    placed = tuple(d for d in found if d.line)
    return placed if any(d.severity is Severity.ERROR for d in placed) else tuple(found)


def _groups(said: str) -> list[list[_Message]]:
    """Gather each error or warning with its notes."""
    groups: list[list[_Message]] = []
    for line in said.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        severity = Severity(match["severity"].replace("fatal ", ""))
        place = Place(match["file"], int(match["line"]), int(match["column"]))
        message = _Message(place, severity, in_apples_words(match["message"]))
        if severity is Severity.NOTE and groups:
            groups[-1].append(message)
        elif severity is not Severity.NOTE:
            groups.append([message])
    return groups


def _is_ours(message: str) -> bool:
    """Say whether a note speaks of what the simulator put into the text."""
    return "kw_" in message or "KW_" in message


def _diagnostic(
    place: Place | None, severity: Severity, message: str, sources: Mapping[str, Sequence[str]]
) -> Diagnostic:
    if place is None:
        return Diagnostic(message=message, severity=severity)
    lines = sources.get(place.file, ())
    text = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    return Diagnostic(
        message=message,
        file=place.file,
        line=place.line,
        column=place.column,
        severity=severity,
        source_line=text,
    )
