"""Values that grow by the same amount from each lane to the next, so that two lanes tell of all."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.metal.device.simulator.wide.assembly import NAME, Instruction, Module
from kernelwright.metal.device.simulator.wide.flow import Flow
from kernelwright.metal.device.simulator.wide.uniform import Uniformity

_SUM = re.compile(r"^(add|sub|or disjoint) (?:(?:nuw|nsw) )*i\d+ (\S+), (\S+)$")
_PRODUCT = re.compile(r"^(mul|shl) (?:(?:nuw|nsw) )*i\d+ (\S+), (\d+)$")
_CAST = re.compile(r"^(zext|sext|trunc) (?:(?:nneg|nuw|nsw) )*(i\d+) (\S+) to (i\d+)$")
_LOW_WORD = re.compile(r"^and i64 (\S+), 4294967295$")
_PLACE = re.compile(r"^getelementptr (?:(?:inbounds|nuw|nusw) )*(.+), ptr (%[^,\s]+), i64 (\S+)$")
# Both hold x, which counts lanes, below a word that does not.
_TWO_WORDS = (0, 12)


@dataclass(frozen=True)
class Ramp:
    """How a value changes from lane to lane."""

    step: int
    is_widened: bool = False
    """A narrower number was extended on the way, which may have wrapped around between lanes."""


class Ramps:
    """The ramps of one kernel."""

    def __init__(self, module: Module, flow: Flow, uniformity: Uniformity) -> None:
        """Look at nothing yet."""
        self._module, self._flow, self._uniformity = module, flow, uniformity
        self._found: dict[str, Ramp | None] = {}

    def of(self, value: str) -> Ramp | None:
        """Return how a value changes; None where it is no ramp."""
        if value not in self._found:
            # A phi node may lead back to itself.
            self._found[value] = None
            self._found[value] = self._look(value)
        return self._found[value]

    def _look(self, value: str) -> Ramp | None:
        i = self._flow.definitions.get(value)
        if i is None or value not in self._uniformity.varying:
            return Ramp(0)
        if self._uniformity.is_field(i):
            is_word = i.text.startswith("load i32")
            return Ramp(1) if is_word else None
        if found := _SUM.match(i.text):
            return self._sum(self.of(found[2]), self.of(found[3]), -1 if found[1] == "sub" else 1)
        if found := _PRODUCT.match(i.text):
            by = int(found[3]) if found[1] == "mul" else 1 << int(found[3])
            return self._sum(Ramp(0), self.of(found[2]), by)
        if (found := _LOW_WORD.match(i.text)) and self._is_pair(found[1]):
            return Ramp(1, is_widened=True)
        if found := _CAST.match(i.text):
            return self._cast(found[1], found[3], self.of(found[3]))
        if found := _PLACE.match(i.text):
            by = self._module.layout(found[1])[0]
            return self._sum(self.of(found[2]), self.of(found[3]), by)
        return None

    def _sum(self, one: Ramp | None, other: Ramp | None, by: int) -> Ramp | None:
        if one is None or other is None or (one.is_widened and other.is_widened):
            return None
        return Ramp(one.step + by * other.step, one.is_widened or other.is_widened)

    def _cast(self, operation: str, operand: str, before: Ramp | None) -> Ramp | None:
        if operation == "trunc":
            if before is None:
                return Ramp(1) if self._is_pair(operand) else None
            return Ramp(before.step)
        # Two that wrap could undo each other.
        return None if before is None or before.is_widened else Ramp(before.step, is_widened=True)

    def _is_pair(self, value: str) -> bool:
        i = self._flow.definitions.get(value)
        if i is None or not self._uniformity.is_field(i):
            return False
        return self._uniformity.field_offset(i) in _TWO_WORDS


@dataclass
class Probe:
    """Computes ramps for one given lane, before the loop over all."""

    ramps: Ramps
    flow: Flow
    uniformity: Uniformity
    lane: str
    """The i32 that counts this lane."""
    suffix: str
    uniform: Callable[[str], str | None]
    """Names a value that is the same for all lanes; None where there is none before the loop."""
    lines: list[str]

    def __post_init__(self) -> None:
        """Begin with nothing computed."""
        self._names: dict[str, str] = {}

    def value(self, name: str) -> str | None:
        """Return where a ramp's value is, computed by lines that have been added."""
        if name not in self.flow.definitions:
            return name
        if name not in self.uniformity.varying:
            return self.uniform(name)
        if name in self._names:
            return self._names[name]
        i = self.flow.definitions[name]
        if self.uniformity.is_field(i):
            return self._named(name, self._field(i))
        operands = {o: self.value(o) for o in i.operands if o in self.flow.definitions}
        if any(text is None for text in operands.values()):
            return None
        return self._named(name, NAME.sub(lambda m: operands.get(m[0]) or m[0], i.text))

    def _named(self, name: str, text: str) -> str:
        plain = re.sub(r"\W", "_", name[1:])
        self._names[name] = new = f"%p{plain}.{self.suffix}"
        self.lines.append(f"{new} = {text}")
        return new

    def _field(self, load: Instruction) -> str:
        """Return what gives an attribute; the loop's own way to it is in region.py."""
        offset = self.uniformity.field_offset(load)
        type_ = load.text.split()[1].rstrip(",")
        place = f"%f{len(self.lines)}.{self.suffix}"
        self.lines += [
            f"{place}.at = getelementptr inbounds i8, ptr %first, i64 {offset}",
            f"{place} = load {type_}, ptr {place}.at, align 4",
        ]
        if type_ == "i32":
            return f"add i32 {place}, {self.lane}"
        self.lines += [
            f"{place}.high = and i64 {place}, -4294967296",
            f"{place}.low = trunc i64 {place} to i32",
            f"{place}.x = add i32 {place}.low, {self.lane}",
            f"{place}.wide = zext i32 {place}.x to i64",
        ]
        return f"or disjoint i64 {place}.high, {place}.wide"
