"""A listing that tells which sides of its conditions were taken, and can be made to take one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.metal.device.simulator.branches.backward_slice import BackwardSlice
from kernelwright.metal.device.simulator.branches.control_flow import ControlFlow
from kernelwright.metal.device.simulator.branches.listing import (
    Block,
    Function,
    Instruction,
    Listing,
    Location,
)
from kernelwright.metal.device.simulator.branches.predicate import (
    COMPARISON,
    asks_for_special,
    is_condition,
    is_contradiction,
    is_special,
    joined_by,
    kind_of,
)
from kernelwright.metal.device.simulator.branches.probe import (
    DISTANCE,
    Probe,
    cases_of,
    extreme_of,
    joined_lanes,
    lanes_of,
    picked,
    switched,
    watched,
)
from kernelwright.metal.device.simulator.branches.site import (
    BITS,
    CHANGED,
    COMPARED,
    FORCED,
    MOST_CONDITIONS,
    SEEN,
    Site,
)
from kernelwright.metal.device.simulator.branches.taint import Taint
from kernelwright.metal.device.simulator.branches.value import type_of_value, watched_value

_ENTRY = re.compile(r'^@"(?:\\01_?)?kw_entry:([^:"]*):')
_OWN_FILES = frozenset(("source", "header", "signature", ""))
_ARITHMETIC = re.compile(
    r"(?:scalar_math|scalar|fast_math|metal_math|metal_simdgroup\w*|metal_atomic|abi)(?:\.h)?$"
)
"""Files of Metal's library whose conditions are how a function is computed."""
_ENDS = frozenset(("load", "phi", "call", "alloca"))
_STEPS = 2
_LOCAL = re.compile(r'%(?:"[^"]*"|[-\w$.]+)')


@dataclass(frozen=True)
class Watched:
    """A listing with its conditions watched."""

    text: str
    sites: tuple[Site, ...]


def watch(text: str, descriptions: Mapping[str, Sequence[int]]) -> Watched:
    """Return a listing whose conditions on loaded data leave traces and can be forced.

    Args:
        text: A listing with line tables.
        descriptions: By kernel, the numbers of its buffers that hold shapes and strides alone.
    """
    lines = text.split("\n")
    listing = Listing(lines)
    writer = _Writer(listing)
    for function in listing.functions:
        entry = _ENTRY.match(function.name)
        if entry is None and not _is_own(listing, function):
            continue
        taint = Taint(
            function, descriptions.get(entry[1], ()) if entry else (), is_entry=bool(entry)
        )
        writer.watch(function, taint)
    return Watched(writer.text(), tuple(writer.sites))


def _is_own(listing: Listing, function: Function) -> bool:
    return listing.file_of(function.file) in _OWN_FILES - {""}


class _Writer:
    """Adds to each condition what watches it."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._lines: list[str] = list(listing.lines)
        self._above: dict[int, list[str]] = {}
        self._after: dict[int, list[str]] = {}
        self._numbers: dict[object, int] = {}
        self.sites: list[Site] = []

    def watch(self, function: Function, taint: Taint) -> None:
        """Watch a function's conditions."""
        self._function, self._taint = function, taint
        self._flow = ControlFlow(function)
        self._behind = BackwardSlice(self._listing, function, taint)
        self._forced: dict[str, str] = {}
        self._in_line: dict[int, dict[str, str]] = {}
        self._known: dict[str, int] = {}
        numbers: dict[str, int] = {}
        places: dict[int, list[tuple[str, str]]] = {}
        for block in function.blocks.values():
            for instruction in block.instructions:
                for name, number in self._watch(block, instruction):
                    numbers[name] = number
                    places.setdefault(number, []).append((name, block.label))
        numbers |= self._watch_ends(numbers)
        self._use(function)
        self._join(function, numbers)
        self._guard(numbers, places)

    def _watch(self, block: Block, instruction: Instruction) -> Iterator[tuple[str, int]]:
        """Watch what one instruction decides; yield its names and the numbers of their sites."""
        if instruction.operation == "switch":
            yield from self._watch_cases(instruction)
        if instruction.result not in self._taint.names | self._taint.last_turns:
            return
        if lanes := lanes_of(instruction):
            yield from self._watch_lanes(instruction, lanes)
        elif (probe := extreme_of(instruction)) is not None:
            yield from self._watch_extreme(instruction, probe)
        elif is_condition(instruction.text) and not is_contradiction(self._function, instruction):
            heads = [i.number for i in block.instructions if i.operation == "phi"]
            at = max(instruction.number, *heads, 0)
            yield from self._watch_one(Probe(instruction), self._after.setdefault(at, []))
        elif type_ := type_of_value(instruction, self._taint.names):
            self._watch_value(instruction, type_)

    def _watch_value(self, instruction: Instruction, type_: str) -> None:
        number = self._number(instruction, type_)
        if number is None:
            return
        plain = instruction.result.strip('%"')
        name = f'%"kw.{number}.{plain}'
        lines = self._after.setdefault(instruction.number, [])
        lines.extend(watched_value(instruction, type_, number, name))
        self._forced[instruction.result] = f'{name}"'
        update = {"value_type": type_, "kind": instruction.operation}
        self.sites[number] = self.sites[number].model_copy(update=update)

    def _watch_one(self, probe: Probe, lines: list[str], of: str = "") -> Iterator[tuple[str, int]]:
        instruction = probe.instruction
        self._function.definitions.setdefault(instruction.result, instruction)
        number = self._number(instruction, of or self._joined(instruction))
        if number is None:
            return
        plain = instruction.result.strip('%"')
        name = f'%"kw.{number}.{plain}'
        lines.extend(map(self._current, probe.before))
        lines.extend(watched(self._as_forced(instruction), number, name))
        self._forced[instruction.result] = f'{name}"'
        self._known[instruction.result] = number
        yield instruction.result, number

    def _joined(self, instruction: Instruction) -> str:
        """Name what a combination joins: of one place in the text there may be several."""
        parts = (name for name, _ in joined_by(self._function, instruction))
        return " ".join(str(self._known[name]) for name in parts if name in self._known)

    def _watch_all(
        self, probes: Sequence[Probe], lines: list[str]
    ) -> tuple[tuple[str, int], ...] | None:
        """Watch the parts of one decision; None where any of them is not the text's own."""
        found: list[tuple[str, int]] = []
        written: list[str] = []
        for place, probe in enumerate(probes):
            found += self._watch_one(probe, written, f"part {place}")
        if len(found) < len(probes):
            return None
        lines.extend(written)
        return tuple(found)

    def _watch_lanes(
        self, instruction: Instruction, lanes: Sequence[Probe]
    ) -> Iterator[tuple[str, int]]:
        lines = self._after.setdefault(instruction.number, [])
        self._define(lanes)
        found = self._watch_all(lanes, lines)
        if found is None:
            return
        lines.extend(joined_lanes(instruction, [self._forced[name] for name, _ in found]))
        self._forced[instruction.result] = _defined(lines[-1])
        yield from found

    def _define(self, probes: Sequence[Probe]) -> None:
        """Make known what the lines before conditions compute, and what of it is data."""
        for probe in probes:
            for line in probe.before:
                name, _, text = line.strip().partition(" = ")
                made = Instruction(probe.instruction.number, name, text, None)
                self._function.definitions.setdefault(name, made)
                if not self._taint.names.isdisjoint(made.operands):
                    self._taint.names.add(name)

    def _watch_extreme(self, instruction: Instruction, probe: Probe) -> Iterator[tuple[str, int]]:
        lines = self._after.setdefault(instruction.number, [])
        if (found := self._watch_all([probe], lines)) is None:
            return
        name = self._forced[probe.instruction.result]
        lines.extend(picked(self._as_forced(instruction), probe, name))
        self._forced[instruction.result] = _defined(lines[-1])
        yield from found

    def _watch_cases(self, instruction: Instruction) -> Iterator[tuple[str, int]]:
        value = instruction.operands[0] if instruction.operands else ""
        if value not in self._taint.names:
            return
        probes = cases_of(instruction)
        lines = self._above.setdefault(instruction.number, [])
        found = self._watch_all(probes, lines) if probes else None
        if found is None:
            return
        names = [self._forced[name] for name, _ in found]
        lines.extend(switched(self._as_forced(instruction), probes, names))
        self._in_line[instruction.number] = {value: _defined(lines[-1])}
        yield from found

    def _watch_ends(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Watch what conditions are when their loop is over: in its turns they may be any."""
        found: dict[str, int] = {}
        place = {i.result: b.label for b in self._function.blocks.values() for i in b.instructions}
        for block in self._function.blocks.values():
            names = {
                name
                for instruction in block.instructions
                if instruction.operation != "phi"
                for name in instruction.operands
                if name in numbers and name in place
            }
            for name in sorted(names):
                outside = (loop for loop in self._flow.loops if block.label not in loop.body)
                if any(place[name] in loop.body for loop in outside):
                    found |= self._watch_end(block, name, numbers[name])
        return found

    def _watch_end(self, block: Block, name: str, number: int) -> dict[str, int]:
        instruction = self._function.definitions[name]
        if COMPARISON.match(instruction.text) is None and not is_condition(instruction.text):
            return {}
        if len(self.sites) == MOST_CONDITIONS:
            return {}
        end = f"{name.strip('%' + chr(34))}.end.{block.label.strip('%' + chr(34))}"
        site = self.sites[number]
        ended = len(self.sites)
        update = {"kind": "end", "has_values": False, "parts": ((number, False),)}
        self.sites.append(site.model_copy(update=update))
        heads = [i.number for i in block.instructions if i.operation == "phi"]
        at = max(heads, default=block.instructions[0].number - 1)
        made = Instruction(instruction.number, self._forced[name], "", instruction.debug)
        stem = f'%"kw.{ended}.{end}'
        self._after.setdefault(at, []).extend(watched(made, ended, stem))
        for one in block.instructions:
            if one.operation != "phi":
                self._in_line.setdefault(one.number, {})[name] = f'{stem}"'
        return {f"{name} at {block.label}": ended}

    def _join(self, function: Function, numbers: Mapping[str, int]) -> None:
        """Note which sites each combination of conditions joins."""
        for name, number in numbers.items():
            if name not in function.definitions:
                continue
            found = {
                (numbers[part], is_negated)
                for part, is_negated in joined_by(function, function.definitions[name])
                if part in numbers
            }
            site = self.sites[number]
            parts = tuple(sorted(found.union(site.parts)))
            self.sites[number] = site.model_copy(update={"parts": parts})

    def _guard(
        self, numbers: Mapping[str, int], places: Mapping[int, Sequence[tuple[str, str]]]
    ) -> None:
        """Note behind which conditions each site stands, in all of its copies.

        Those that look at the same numbers are left out: they may leave one side no number.
        """
        for number, copies in places.items():
            around = []
            for name, label in copies:
                known = self._numbers_of(name)
                around.append(
                    {
                        (numbers[guard], value)
                        for guard, value in self._flow.guards(label)
                        if guard in numbers and known.isdisjoint(self._numbers_of(guard))
                    }
                )
            guards = tuple(sorted(set.intersection(*around) - {(number, True), (number, False)}))
            self.sites[number] = self.sites[number].model_copy(update={"guards": guards})

    def _numbers_of(self, name: str) -> frozenset[str]:
        """Return what a condition compares, and what that is computed from in one step."""
        definitions = self._function.definitions
        found, pending = set[str](), [name]
        for _ in range(_STEPS):
            made = [definitions[n] for n in pending if n in definitions]
            pending = [
                n for i in made if i.operation not in _ENDS for n in i.operands if n in definitions
            ]
            found.update(pending)
        return frozenset(found)

    def _current(self, text: str) -> str:
        """Name in a text what conditions were forced to be."""
        return _renamed(text, self._forced)

    def _as_forced(self, instruction: Instruction) -> Instruction:
        return replace(instruction, text=self._current(instruction.text))

    def _use(self, function: Function) -> None:
        """Let all others use what a condition was made to be."""
        if not self._forced:
            return
        first = min(i.number for i in function.instructions)
        last = max(i.number for i in function.instructions)
        for number in range(first, last + 1):
            line = self._lines[number]
            known = {**self._forced, **self._in_line.get(number, {})}
            head, mark, rest = line.partition(" = ")
            if not mark or not head.startswith("  %"):
                head, mark, rest = "", "", line
            self._lines[number] = f"{head}{mark}{_renamed(rest, known)}"

    def _number(self, instruction: Instruction, of: str = "") -> int | None:
        """Return the number of a condition's site; None for what is not the text's own."""
        chain = self._listing.chain(instruction.debug)
        if chain and _ARITHMETIC.search(chain[0].file):
            return None
        own = next((c for c in chain if c.file in _OWN_FILES and c.line), None)
        found = COMPARISON.match(instruction.text)
        kind = kind_of(instruction)
        constant = found[5] if found and found[5][0] not in "%@" else ""
        key: object = (chain, kind, constant, of)
        if own is None or not chain[0].line:
            key = (self._function.name, instruction.result)
        if key not in self._numbers:
            if len(self.sites) == MOST_CONDITIONS:
                return None
            self._numbers[key] = len(self.sites)
            place = own or self._nearby(self._function, instruction)
            self.sites.append(self._site(instruction, place, kind, constant))
        return self._numbers[key]

    def _site(self, instruction: Instruction, place: Location, kind: str, constant: str) -> Site:
        taint, found = self._taint, COMPARISON.match(instruction.text)
        one, other = (found[4], found[5]) if found else ("", "")
        origins = self._behind.origins(instruction)
        special = is_special(self._function, instruction.result)
        return Site(
            file=place.file,
            line=place.line,
            column=place.column,
            kind=kind,
            constant=constant,
            has_values=found is not None,
            loaded=(taint.loaded_from(one), taint.loaded_from(other)),
            is_special=special or asks_for_special(instruction.text),
            is_chosen=taint.is_chosen_index(one),
            is_known=(one not in taint.names, other not in taint.names),
            numbers=tuple(sorted(origins.numbers)),
            reads_bits=origins.reads_bits,
            reads_data=origins.reads_data,
            compares=origins.compares,
            loads=tuple(sorted(origins.loads)),
        )

    def _nearby(self, function: Function, instruction: Instruction) -> Location:
        """Return where what follows a condition stands that has no place of its own."""
        block = next(b for b in function.blocks.values() if instruction in b.instructions)
        start = block.instructions.index(instruction)
        for other in (*block.instructions[start:], *reversed(block.instructions[:start])):
            chain = self._listing.chain(other.debug)
            own = next((c for c in chain if c.file in _OWN_FILES and c.line), None)
            if own is not None:
                return own
        return Location("source", 0, 0)

    def text(self) -> str:
        """Return the listing with all that watches it."""
        written: list[str] = []
        for number, line in enumerate(self._lines):
            written += self._above.get(number, ())
            written.append(line)
            written += self._after.get(number, ())
        count = max(len(self.sites), 1)
        written += [
            f"@{SEEN} = global [{2 * count} x i8] zeroinitializer",
            f"@{FORCED} = global [{count} x i8] zeroinitializer",
            f"@{BITS} = global [{2 * count} x i64] zeroinitializer",
            f"@{CHANGED} = global [{count} x i64] zeroinitializer",
            f"@{COMPARED} = global [{3 * count} x double] zeroinitializer",
        ]
        if not any(line.startswith("declare") and f"{DISTANCE}(" in line for line in self._lines):
            written.append(f"declare double {DISTANCE}(double)")
        return "\n".join((*written, ""))


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _LOCAL.sub(lambda found: names.get(found[0], found[0]), text)


def _defined(line: str) -> str:
    """Return the name that a line defines."""
    return line.partition(" = ")[0].strip()
