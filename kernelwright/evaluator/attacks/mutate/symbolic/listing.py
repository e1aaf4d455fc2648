"""Reads a kernel's function in a listing of LLVM: blocks of instructions, by their words."""

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from kernelwright.evaluator.attacks.mutate.symbolic.term import UnprovenError

_LABEL = re.compile(r'(?:([\w.$-]+)|"([^"]*)"):')
_RESULT = re.compile(r'(%[\w.$-]+|%"[^"]*") = (.*)')
_DROPPED = re.compile(
    r"\b(?:tail |musttail |notail |nuw |nsw "
    r"|exact |nneg |samesign |inbounds |noundef |nonnull |signext |zeroext |noalias "
    r"|dereferenceable(?:_or_null)?\(\d+\) |captures\([^)]*\) |align \d+ |range\([^)]*\) |readonly "
    r"|writeonly |local_unnamed_addr |noreturn )"
)
_ATTACHED = re.compile(r"(?:, ![\w.]+ ![\w.{}]+)+$")
_LENIENT = re.compile(r"(?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )+")
"""What an operation of floats may ignore, which is part of its name here."""
_ARGUMENT = re.compile(r"%[\w.$-]+")
_PURE = re.compile(r"attributes (#\d+) = \{([^}]*)\}")
_DECLARED = re.compile(r'declare .*?@("[^"]*"|[\w.$-]+)\(.*?(#\d+)?$')
_STRUCT = re.compile(r"^(%[\w.]+|%\"[^\"]*\") = type \{ (.+) \}$", re.MULTILINE)
_GLOBAL = re.compile(r'@("[^"]*"|[\w.$-]+) = ')
_DEFINED = re.compile(r'@("[^"]*"|[\w.$-]+)\(')
_FLOATS = {"float": "<f", "double": "<d"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line: what it gives its result to, its operation, and what follows that."""

    result: str
    name: str
    text: str
    lenience: str = ""


@dataclass(eq=False)
class Function:
    """A kernel's blocks, in which `entry` is the first one's label."""

    arguments: tuple[str, ...]
    entry: str
    blocks: dict[str, list[Instruction]] = field(default_factory=dict)
    pure: frozenset[str] = frozenset()
    """Functions that depend on what they are given alone, and change nothing."""
    known: Mapping[str, str] = field(default_factory=dict)
    """What stands behind the names of global constants and of functions that combine lanes."""

    def calls(self, name: str) -> bool:
        """Say whether a function is called by its name."""
        return any(
            f"@{name}(" in instruction.text
            for block in self.blocks.values()
            for instruction in block
            if instruction.name == "call"
        )

    def successors(self, label: str) -> tuple[str, ...]:
        """Return where a block may lead."""
        last = self.blocks[label][-1]
        return tuple(found.lstrip("%") for found in re.findall(r"label (%[\w.$-]+)", last.text))


def read(listing: str) -> Function:
    """Read a listing's only kernel.

    Raises:
        UnprovenError: there is none, or several.
    """
    for name, body in _STRUCT.findall(listing):
        # Of one or several members of one type, which it then is an array of.
        members = operands(body)
        if len(set(members)) == 1:
            listing = listing.replace(name, f"[{len(members)} x {members[0]}]")
    lines = listing.splitlines()
    starts = [place for place, line in enumerate(lines) if line[:7] == "define "]
    kernels = [place for place in starts if '@"kw_entry:' in lines[place]]
    if len(kernels) != 1:
        raise UnprovenError("the listing is of several kernels.")
    header = lines[kernels[0]]
    names = tuple(_ARGUMENT.findall(header[header.index("(") :]))
    function = Function(names, str(len(names)), pure=_pure_functions(listing), known=_known(lines))
    label = function.entry
    for line in _joined(lines[kernels[0] + 1 :]):
        if line == "}":
            break
        if match := _LABEL.match(line):
            label = match[1] or match[2]
        elif line.strip():
            function.blocks.setdefault(label, []).append(_instruction(line.strip()))
    return function


def _known(lines: Sequence[str]) -> dict[str, str]:
    """Return what each name of the listing stands for, but for what is declared alone."""
    found = dict[str, str]()
    for place, line in enumerate(lines):
        if match := _GLOBAL.match(line):
            found[match[1]] = line.partition(" = ")[2]
        elif line[:7] == "define " and (name := _DEFINED.search(line)):
            end = lines.index("}", place)
            found[name[1]] = "\n".join([name[1], *lines[place + 1 : end]])
    return found


def _joined(lines: Sequence[str]) -> list[str]:
    """Put a switch's cases in its line."""
    found = list[str]()
    for line in lines:
        if found and found[-1].lstrip().startswith("switch") and not found[-1].endswith("]"):
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return found


def _instruction(line: str) -> Instruction:
    line = _ATTACHED.sub("", line)
    result, rest = match.groups() if (match := _RESULT.match(line)) else ("", line)
    name, _, text = rest.removeprefix("tail ").partition(" ")
    is_disjoint = text.startswith("disjoint ")
    text = text.removeprefix("disjoint ")
    lenient = match[0] if (match := _LENIENT.match(text)) else ""
    text = _DROPPED.sub("", text.removeprefix(lenient) + " ").strip()
    return Instruction(result, "disjoint" if is_disjoint else name, text, lenient.strip())


def _pure_functions(listing: str) -> frozenset[str]:
    pure = {number for number, what in _PURE.findall(listing) if "memory(none)" in what}
    found = (_DECLARED.match(line) for line in listing.splitlines() if line[:8] == "declare ")
    return frozenset(match[1] for match in found if match and match[2] in pure)


@cache
def operands(text: str) -> tuple[str, ...]:
    """Part a text at the commas that no bracket encloses."""
    found, depth, start = list[str](), 0, 0
    for place, sign in enumerate(text):
        if sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
        elif sign == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    rest = text[start:].strip()
    return (*found, rest) if rest else tuple(found)


@cache
def typed(text: str) -> tuple[str, str]:
    """Part `float %3` into its type and its value."""
    if text[0] in "<[{":
        closing = {"<": ">", "[": "]", "{": "}"}[text[0]]
        depth = 0
        for place, sign in enumerate(text):
            depth += (sign == text[0]) - (sign == closing)
            if depth == 0:
                return text[: place + 1], text[place + 1 :].strip()
    kind, _, value = text.partition(" ")
    return kind, value


@cache
def parsed(name: str, text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return how numbers are compared, the operands' type, and the operands."""
    predicate = ""
    if name in ("icmp", "fcmp"):
        predicate, _, text = text.partition(" ")
    first, *others = operands(text)
    kind, value = typed(first)
    return predicate, kind, (value, *others)


@cache
def phi_sources(text: str) -> tuple[str, Mapping[str, str]]:
    """Return a phi's type, and its value for each block that may come before."""
    kind, pairs = typed(text)
    found = re.findall(r"\[ (.+?), %([\w.$-]+) \]", pairs)
    return kind, {source: value for value, source in found}


@cache
def lanes_of(kind: str) -> tuple[int, str]:
    """Return how many elements a vector has and of which type; one of any other type."""
    match = re.fullmatch(r"<(\d+) x (.+)>", kind)
    return (int(match[1]), match[2]) if match else (0, kind)


@cache
def width_of(kind: str) -> int:
    """Return how many bits a number has."""
    if kind[0] == "i" and kind[1:].isdigit():
        return int(kind[1:])
    sizes: Mapping[str, int] = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
    if kind not in sizes:
        raise UnprovenError(f"numbers of the type {kind}.")
    return sizes[kind]


@cache
def size_of(kind: str) -> int:
    """Return how many bytes a type takes in memory."""
    if kind[0] in "[<" and (match := re.fullmatch(r"[\[<](\d+) x (.+)[\]>]", kind)):
        return int(match[1]) * size_of(match[2])
    return (width_of(kind) + 7) // 8


@cache
def constant(kind: str, text: str) -> int | None:
    """Return the bits of a constant; None where the text is none."""
    if text in ("true", "false"):
        return int(text == "true")
    if text == "zeroinitializer":
        return 0
    if re.fullmatch(r"-?\d+", text):
        return int(text) % (1 << width_of(kind))
    if text[:3] in ("0xH", "0xR"):
        return int(text[3:], 16)
    if kind in _FLOATS and re.match(r"-?\d+\.|0x", text):
        bits = int(text, 16) if text[:2] == "0x" else None
        number = float(text) if bits is None else struct.unpack("<d", struct.pack("<Q", bits))[0]
        return _float_bits(kind, number, bits)
    return None


def _float_bits(kind: str, number: float, bits: int | None) -> int:
    if kind == "double":
        return int.from_bytes(struct.pack("<d", number), "little")
    if number != number:
        # A float's NaN is written as the double whose first bits it has.
        assert bits is not None
        return (bits >> 63 << 31) | 0x7F800000 | (bits >> 29 & 0x7FFFFF)
    return int.from_bytes(struct.pack("<f", number), "little")
