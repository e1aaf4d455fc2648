"""The questions of a vetted region: code beside each access, in the loop over lanes.

Nothing is told apart here. An access that might be worth a report makes the whole launch
suspicious, and the sanitizer then looks at it properly.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.metal.device.simulator.instance import MET
from kernelwright.metal.device.simulator.wide.assembly import Instruction, UnknownAssemblyError
from kernelwright.metal.device.simulator.wide.marked import MARK, SUSPECT
from kernelwright.metal.device.simulator.wide.opaque import Opaque
from kernelwright.metal.device.simulator.wide.origin import pointer_of
from kernelwright.metal.device.simulator.wide.ramp import Probe
from kernelwright.metal.device.simulator.wide.vetting import (
    INSTANCES_AT,
    INSTRUMENTED,
    TRACK_BYTES,
    TRACKS_AT,
    Tracked,
    Vetting,
)

_SIZE, _WRITES, _READS, _TAG, _LOWEST, _SPAN = 8, 16, 24, 32, 40, 44
_WRITE_CLAIMS, _READ_CLAIMS = 48, 56
"""Where Track of vet.h has its fields."""
_INSTANCES = (("%vet.instance.some", 0), ("%vet.instance.every", -1))
"""Bits that the instance of some lane has, and those that each has; with what they are at first."""
_MOST_LANES = 1024
"""Of one call."""


@dataclass
class Guard:
    """Writes the questions of one region."""

    vetting: Vetting
    opaque: Opaque
    base_of: Callable[[str], str]
    """Names the value that holds an address, in this region."""
    uniform: Callable[[str], str | None]
    """Names a value that is one for all lanes and known before the loop; None where it is not."""
    group: str
    """What is attached to accesses of which lanes do not depend on each other."""
    before: list[str] = field(default_factory=list)
    """Once for all lanes."""
    head: list[str] = field(default_factory=list)
    """Once for each lane."""
    _counters: dict[str, int] = field(default_factory=dict)
    """Names of counts of a lane, and where the runtime adds them up."""
    _known: set[str] = field(default_factory=set)
    _fresh: int = 0
    _is_conditional: bool = False

    def __post_init__(self) -> None:
        """Begin with nothing found."""
        self.before += [
            "%vet.few.all = alloca i32",
            "store i32 0, ptr %vet.few.all",
            "%vet.bad = alloca i1",
            "%vet.bad.all = alloca i32",
            "store i32 0, ptr %vet.bad.all",
            "%vet.last = sub i64 %end, 1",
            "%vet.steps = sub i64 %vet.last, %from",
            "%vet.lane.first = trunc i64 %from to i32",
            "%vet.lane.last = trunc i64 %vet.last to i32",
        ]
        self.head += [
            "store i1 false, ptr %vet.bad",
            "%vet.lane = sub i32 %i32, %vet.lane.first",
        ]
        self._has_instances = False
        self._first = self._probe("%vet.lane.first", "first")
        self._last = self._probe("%vet.lane.last", "last")

    def _probe(self, lane: str, suffix: str) -> Probe:
        v = self.vetting
        return Probe(v.ramps, v.flow, v.uniformity, lane, suffix, self.uniform, self.before)

    def is_asked(self, i: Instruction) -> bool:
        """Say whether an instruction stands for a question, and is nothing else."""
        return i.callee in (SUSPECT, MET) or i.callee.startswith(INSTRUMENTED)

    def ask(self, i: Instruction, operand: Callable[[str], str], is_conditional: bool) -> list[str]:
        """Return what stands in the place of a mark."""
        self._is_conditional = is_conditional
        if i.callee == SUSPECT:
            return self.suspect("true")
        if i.callee == MET:
            return self._meet(i, operand)
        mark = MARK.match(i.callee)
        if mark is None:
            raise UnknownAssemblyError(i.text)
        pointer, width = pointer_of(i), int(mark[3])
        needed = 1 if mark[1] else min(width, 8)
        tracked = self.vetting.of(pointer)
        if tracked is None:
            origin = self.vetting.origins.of(pointer)
            return self._own(operand(pointer), origin.name if origin else "", width, needed)
        lines, offset = self._bounds(tracked, pointer, operand(pointer), width, needed)
        if tracked.has_traces and "read" in mark[2]:
            lines += self._read(tracked, offset, width)
        if tracked.has_traces and "write" in mark[2]:
            lines += self._write(tracked, offset, width)
        return lines

    def _meet(self, i: Instruction, operand: Callable[[str], str]) -> list[str]:
        """Note the instance of the wait that a lane has come to, for the runtime to compare."""
        found = re.search(r"\(i64 (?:noundef )?(\S+)\)", i.text)
        if found is None:
            raise UnknownAssemblyError(i.text)
        if not self._has_instances:
            self._has_instances = True
            for name, first in _INSTANCES:
                self.before += [f"{name}.all = alloca i64", f"store i64 {first}, ptr {name}.all"]
            self.before.append("%vet.instance = alloca i64")
            self.head.append("store i64 0, ptr %vet.instance")
        value = operand(found[1]) if found[1].startswith("%") else found[1]
        return [f"store i64 {value}, ptr %vet.instance"]

    def ask_of_own(
        self, i: Instruction, operand: Callable[[str], str], is_conditional: bool
    ) -> list[str]:
        """Return what stands before an access to a thread's own variable."""
        self._is_conditional = is_conditional
        found = self.vetting.own_place(i)
        if found is None:
            return []
        pointer, variable, width = found
        return self._own(operand(pointer), variable, width, 1)

    def suspect(self, condition: str) -> list[str]:
        """Make the launch suspicious where a condition holds."""
        n = self._next()
        return [
            f"%vet.was{n} = load i1, ptr %vet.bad",
            f"%vet.now{n} = or i1 %vet.was{n}, {condition}",
            f"store i1 %vet.now{n}, ptr %vet.bad",
        ]

    def _own(self, pointer: str, variable: str, width: int, needed: int) -> list[str]:
        text = self.vetting.origins.definitions[variable].text
        found = re.match(r"alloca (.*), align (\d+)$", text)
        if found is None or int(found[2]) < needed:
            return self.suspect("true")
        size = self.vetting.module.layout(found[1])[0]
        n, base = self._next(), self.base_of(variable)
        lines = [
            f"%vet.to{n} = ptrtoint ptr {pointer} to i64",
            f"%vet.from{n} = ptrtoint ptr {base} to i64",
            f"%vet.off{n} = sub i64 %vet.to{n}, %vet.from{n}",
        ]
        return lines + self._within(n, str(size - width) if size >= width else "-1", needed - 1)

    def _bounds(
        self, tracked: Tracked, pointer: str, place: str, width: int, needed: int
    ) -> tuple[list[str], str]:
        n, name = self._next(), self._place(tracked)
        mask = max(needed, tracked.grain if tracked.has_traces else 1) - 1
        lines = [
            f"%vet.to{n} = ptrtoint ptr {place} to i64",
            f"%vet.off{n} = sub i64 %vet.to{n}, {name}.from",
        ]
        limit = str(max(tracked.size - width, 0)) if tracked.size else f"{name}.most{width}"
        if not tracked.size:
            self._once(
                limit,
                f"{name}.few{width} = icmp ult i64 {name}.size, {width}",
                f"{name}.short{width} = zext i1 {name}.few{width} to i32",
                f"{name}.before{width} = load i32, ptr %vet.few.all",
                f"{name}.after{width} = or i32 {name}.before{width}, {name}.short{width}",
                f"store i32 {name}.after{width}, ptr %vet.few.all",
                f"{limit} = call i64 @llvm.usub.sat.i64(i64 {name}.size, i64 {width})",
            )
        elif tracked.size < width:
            lines += self.suspect("true")
        within = self._lanes_within(pointer, name, limit, mask)
        return lines + (within or self._within(n, limit, mask)), f"%vet.off{n}"

    def _lanes_within(self, pointer: str, name: str, limit: str, mask: int) -> list[str]:
        """Ask whether a lane is among those that stay inside, where offsets are a ramp; else []."""
        ramp = self.vetting.ramps.of(pointer)
        if ramp is None or ramp.step <= 0:
            return []
        first, last = self._first.value(pointer), self._last.value(pointer)
        if first is None or last is None:
            return []
        good = f"%vet.good.{re.sub(r'[^0-9A-Za-z]', '_', pointer[1:])}.{limit.lstrip('%')}.{mask}"
        step = ramp.step
        is_aligned = "true" if step & mask == 0 else "false"
        self._once(
            good,
            f"{good}.a = ptrtoint ptr {first} to i64",
            f"{good}.b = ptrtoint ptr {last} to i64",
            f"{good}.off = sub i64 {good}.a, {name}.from",
            f"{good}.all = sub i64 {good}.b, {good}.a",
            f"{good}.due = mul i64 %vet.steps, {step}",
            f"{good}.even = icmp eq i64 {good}.all, {good}.due",
            f"{good}.low = and i64 {good}.off, {mask}",
            f"{good}.start = icmp eq i64 {good}.low, 0",
            f"{good}.in = icmp ule i64 {good}.off, {limit}",
            f"{good}.1 = and i1 {good}.even, {good}.start",
            f"{good}.2 = and i1 {good}.1, {good}.in",
            f"{good}.3 = and i1 {good}.2, {is_aligned}",
            f"{good}.room = sub i64 {limit}, {good}.off",
            f"{good}.count = udiv i64 {good}.room, {step}",
            f"{good}.most = call i64 @llvm.umin.i64(i64 {good}.count, i64 {_MOST_LANES})",
            f"{good}.more = trunc i64 {good}.most to i32",
            f"{good}.lanes = add i32 {good}.more, 1",
            f"{good} = select i1 {good}.3, i32 {good}.lanes, i32 0",
        )
        n = self._next()
        return [
            f"%vet.beyond{n} = icmp uge i32 %vet.lane, {good}",
            *self.suspect(f"%vet.beyond{n}"),
        ]

    def _within(self, n: int, limit: str, mask: int) -> list[str]:
        lines = [f"%vet.out{n} = icmp ugt i64 %vet.off{n}, {limit}", *self.suspect(f"%vet.out{n}")]
        if mask:
            lines += [
                f"%vet.low{n} = and i64 %vet.off{n}, {mask}",
                f"%vet.skew{n} = icmp ne i64 %vet.low{n}, 0",
                *self.suspect(f"%vet.skew{n}"),
            ]
        return lines

    def _place(self, tracked: Tracked) -> str:
        """Return the prefix of what the region knows of something, loaded before its loop."""
        name = f"%vet.{tracked.slot}"
        if f"{name}.from" not in self._known:
            base = self.base_of(self.vetting.name_of(tracked))
            self._once(f"{name}.from", f"{name}.from = ptrtoint ptr {base} to i64")
            if not tracked.size:
                self._field(f"{name}.size", "i64", tracked, _SIZE)
        return name

    def _traces(self, tracked: Tracked) -> str:
        name = self._place(tracked)
        if f"{name}.mine" not in self._known:
            self._field(f"{name}.writes", "ptr", tracked, _WRITES)
            self._field(f"{name}.reads", "ptr", tracked, _READS)
            self._field(f"{name}.tag.at", "ptr", tracked, _TAG)
            self._once(f"{name}.tag", f"{name}.tag = load i32, ptr {name}.tag.at")
            self._field(f"{name}.lowest", "i32", tracked, _LOWEST)
            self._field(f"{name}.span", "i32", tracked, _SPAN)
            self._known.add(f"{name}.mine")
            self.head.append(f"{name}.mine = add i32 {name}.tag, %i32")
        return name

    def _field(self, name: str, type_: str, tracked: Tracked, field_at: int) -> None:
        at = TRACKS_AT + tracked.slot * TRACK_BYTES + field_at
        self._once(
            name,
            f"{name}.field = getelementptr i8, ptr %vet, i64 {at}",
            f"{name} = load {type_}, ptr {name}.field",
        )

    def _once(self, name: str, *lines: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self.before += lines

    def _write(self, tracked: Tracked, offset: str, width: int) -> list[str]:
        return self._mark(tracked, offset, width, "writes", _WRITE_CLAIMS)

    def _read(self, tracked: Tracked, offset: str, width: int) -> list[str]:
        """Ask whether somebody wrote it first, and leave a trace for those who write it later."""
        name, lines = self._traces(tracked), list[str]()
        for trace in self._each(lines, tracked, offset, width, "writes"):
            n = self._next()
            lines += [
                *self._trace(f"%vet.by{n}", trace),
                f"%vet.since{n} = sub i32 %vet.by{n}, {name}.lowest",
                f"%vet.void{n} = icmp ugt i32 %vet.since{n}, {name}.span",
                *self.suspect(f"%vet.void{n}"),
            ]
        return lines + self._mark(tracked, offset, width, "reads", _READ_CLAIMS)

    def _mark(
        self, tracked: Tracked, offset: str, width: int, kind: str, claims_at: int
    ) -> list[str]:
        """Leave a trace, and count those that were somebody else's or nobody's."""
        name, lines = self._traces(tracked), list[str]()
        counter = self._counter(f"{name}.{kind}.claims", tracked, claims_at)
        for trace in self._each(lines, tracked, offset, width, kind):
            n = self._next()
            lines += [
                *self._trace(f"%vet.old{n}", trace),
                f"%vet.new{n} = icmp ne i32 %vet.old{n}, {name}.mine",
                f"%vet.one{n} = zext i1 %vet.new{n} to i32",
                f"%vet.sum{n} = load i32, ptr {counter}",
                f"%vet.add{n} = add i32 %vet.sum{n}, %vet.one{n}",
                f"store i32 %vet.add{n}, ptr {counter}",
                f"store i32 {name}.mine, ptr {trace}{self.group}",
            ]
        return lines

    def _trace(self, name: str, place: str) -> list[str]:
        text = f"load i32, ptr {place}{self.group}"
        return self.opaque.load(name, text) if self._is_conditional else [f"{name} = {text}"]

    def _each(
        self, lines: list[str], tracked: Tracked, offset: str, width: int, kind: str
    ) -> list[str]:
        """Return the places of the traces of an access."""
        n, step = self._next(), max(tracked.grain, 4)
        lines += [
            f"%vet.shift{n} = shl i64 {offset}, {tracked.scale}",
            f"%vet.at{n}.0 = getelementptr i8, ptr %vet.{tracked.slot}.{kind}, i64 %vet.shift{n}",
        ]
        count = max(width // tracked.grain, 1)
        lines += [
            f"%vet.at{n}.{k} = getelementptr i8, ptr %vet.at{n}.0, i64 {k * step}"
            for k in range(1, count)
        ]
        return [f"%vet.at{n}.{k}" for k in range(count)]

    def _counter(self, name: str, tracked: Tracked, field_at: int) -> str:
        if name not in self._counters:
            self._counters[name] = TRACKS_AT + tracked.slot * TRACK_BYTES + field_at
            self.before += [
                f"{name} = alloca i32",
                f"{name}.all = alloca i32",
                f"store i32 0, ptr {name}.all",
            ]
            self.head.append(f"store i32 0, ptr {name}")
        return name

    def latch(self) -> list[str]:
        """Return what adds a lane's findings to those of the lanes before."""
        lines = [
            "%vet.bad.end = load i1, ptr %vet.bad",
            "%vet.bad.word = zext i1 %vet.bad.end to i32",
            "%vet.bad.before = load i32, ptr %vet.bad.all",
            "%vet.bad.after = or i32 %vet.bad.before, %vet.bad.word",
            "store i32 %vet.bad.after, ptr %vet.bad.all",
        ]
        for name in self._counters:
            lines += [
                f"{name}.lane = load i32, ptr {name}",
                f"{name}.before = load i32, ptr {name}.all",
                f"{name}.after = add i32 {name}.before, {name}.lane",
                f"store i32 {name}.after, ptr {name}.all",
            ]
        if self._has_instances:
            lines.append("%vet.instance.lane = load i64, ptr %vet.instance")
            for (name, _), operation in zip(_INSTANCES, ("or", "and"), strict=True):
                lines += [
                    f"{name}.before = load i64, ptr {name}.all",
                    f"{name}.after = {operation} i64 {name}.before, %vet.instance.lane",
                    f"store i64 {name}.after, ptr {name}.all",
                ]
        return lines

    def leave(self) -> list[str]:
        """Return what tells the runtime of all lanes' findings."""
        lines = [
            "%vet.found.lanes = load i32, ptr %vet.bad.all",
            "%vet.found.few = load i32, ptr %vet.few.all",
            "%vet.found.here = or i32 %vet.found.lanes, %vet.found.few",
            "%vet.found.before = load i32, ptr %vet",
            "%vet.found.after = or i32 %vet.found.before, %vet.found.here",
            "store i32 %vet.found.after, ptr %vet",
        ]
        for name, at in self._counters.items():
            lines += [
                f"{name}.sum = load i32, ptr {name}.all",
                f"{name}.wide = zext i32 {name}.sum to i64",
                f"{name}.at = getelementptr i8, ptr %vet, i64 {at}",
                f"{name}.old = load i64, ptr {name}.at",
                f"{name}.new = add i64 {name}.old, {name}.wide",
                f"store i64 {name}.new, ptr {name}.at",
            ]
        if self._has_instances:
            for (name, _), at in zip(_INSTANCES, INSTANCES_AT, strict=True):
                lines += [
                    f"{name}.found = load i64, ptr {name}.all",
                    f"{name}.at = getelementptr i8, ptr %vet, i64 {at}",
                    f"store i64 {name}.found, ptr {name}.at",
                ]
        return lines

    def _next(self) -> int:
        self._fresh += 1
        return self._fresh
