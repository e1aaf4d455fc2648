"""One region of a kernel as a function: a loop over lanes from one wait to the next."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.metal.device.simulator.wide.aliasing import Aliasing
from kernelwright.metal.device.simulator.wide.assembly import (
    NAME,
    Instruction,
    Module,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.flow import Flow, Piece
from kernelwright.metal.device.simulator.wide.guard import Guard
from kernelwright.metal.device.simulator.wide.opaque import Opaque
from kernelwright.metal.device.simulator.wide.origin import Origins, pointer_of
from kernelwright.metal.device.simulator.wide.ramp import Ramps
from kernelwright.metal.device.simulator.wide.shape import Loops, Shape
from kernelwright.metal.device.simulator.wide.uniform import Uniformity
from kernelwright.metal.device.simulator.wide.vetting import Vetting

SIMD_WIDTH = 32
_LINE_BYTES = 64
_GROUP = ", !llvm.access.group !{group}"
_VARIABLE = re.compile(
    r"\bcall (?:align \d+ )?ptr "
    r"(@kw_threadgroup_alloc\(i32 (?:noundef )?\d+, i64 (?:noundef )?)(\d+)"
)
_DROPPED = re.compile(r"@llvm\.(?:lifetime|assume|experimental\.noalias)")
_MOVABLE = frozenset(
    (
        *("getelementptr", "add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"),
        *("zext", "sext", "trunc", "icmp", "fcmp", "select", "ptrtoint", "bitcast", "load"),
        *("fadd", "fsub", "fmul", "fneg", "fpext", "fptrunc", "uitofp", "sitofp"),
    )
)


class Frame:
    """Where a simdgroup keeps what its lanes need after a wait: 32 of each value side by side."""

    def __init__(self) -> None:
        """Begin empty."""
        self.size = 0
        self._offsets: dict[str, int] = {}

    def offset(self, name: str, stride: int) -> int:
        """Return the place of a value, made at its first use."""
        if name not in self._offsets:
            self._offsets[name] = self.size
            self.size += -(-stride * SIMD_WIDTH // _LINE_BYTES) * _LINE_BYTES
        return self._offsets[name]


@dataclass(frozen=True)
class Plan:
    """What all regions of one kernel share."""

    module: Module
    flow: Flow
    uniformity: Uniformity
    frame: Frame
    live: Mapping[str, frozenset[str]]
    crossing: frozenset[str]
    group: int
    """Number of the metadata node that says that lanes do not depend on each other."""
    vetting: Vetting | None = None
    """What each access is asked; None where nothing is."""
    aliasing: Aliasing | None = None
    """What accesses cannot meet; None where nothing is told of it."""

    @cached_property
    def origins(self) -> Origins:
        """What the kernel's pointers point into."""
        return Origins(self.module, self.flow.function)

    @cached_property
    def ramps(self) -> Ramps:
        """Which values grow from lane to lane."""
        return Ramps(self.module, self.flow, self.uniformity)

    def type_of(self, value: str) -> str:
        """Return the type of a value."""
        return self.module.result_type(self.flow.definitions[value])

    def slot(self, value: str) -> int:
        """Return where the frame keeps a value."""
        return self.frame.offset(value, self.module.layout(self.type_of(value))[0])

    def memory(self, alloca: str) -> tuple[int, int]:
        """Return where the frame keeps the lanes' copies of a local variable, and their stride."""
        text = self.flow.definitions[alloca].text
        found = re.match(r"alloca (.*), align (\d+)$", text)
        if found is None or not found[1].strip():
            raise UnknownAssemblyError(text)
        type_, end = self.module.read_type(found[1], 0)
        if end != len(found[1]):
            raise UnknownAssemblyError(text)
        alignment = int(found[2])
        stride = -(-self.module.layout(type_)[0] // alignment) * alignment
        return self.frame.offset(alloca, stride), stride


@dataclass
class Region:
    """Writes one region's function."""

    plan: Plan
    number: int
    start: str
    _before: list[str] = field(default_factory=list)
    """Once for all lanes."""
    _head: list[str] = field(default_factory=list)
    """Once for each lane, before its first piece."""
    _body: list[str] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)
    """Values that hold in the whole region, with their names."""
    _kept: dict[str, str] = field(default_factory=dict)
    """Values as the region finds them in the frame."""
    _locals: dict[str, str] = field(default_factory=dict)
    """Values that pieces hand to each other in memory, which LLVM makes registers of."""
    _renamed: dict[str, str] = field(default_factory=dict)
    """Names of values in the piece at hand."""
    _fresh: int = 0
    _guard: Guard | None = None
    _opaque: Opaque = field(default_factory=Opaque)
    _stores: bool = False
    _shape: Shape = field(init=False)

    def write(self, symbol: str, loops: Loops) -> str:
        """Return the function's text."""
        flow, plan = self.plan.flow, self.plan
        if plan.vetting is not None:
            group = _GROUP.format(group=plan.group)
            self._guard = Guard(plan.vetting, self._opaque, self._recipe, self._ready, group)
        pieces = flow.region(self.start)
        self._shape = Shape(pieces, self.start, self._step, loops)
        live = plan.live[self.start]
        self._stores = any(i.operation == "store" for p in pieces for i in p.instructions)
        made_here = {i.result for p in pieces for i in p.instructions}
        for value in sorted(made_here & plan.crossing - plan.uniformity.recipes):
            self._locals[value] = f"%at{_plain(value)}"
        self._hoist(flow.pieces[self.start], live)
        for value in sorted(live - plan.uniformity.recipes):
            loaded = self._loaded(value)
            if value in self._locals:
                self._head.append(
                    f"store {plan.type_of(value)} {loaded}, ptr {self._locals[value]}"
                )
        for piece in pieces:
            self._piece(piece)
        return self._assemble(symbol, loops.narrow if self._shape.is_narrow else loops.wide)

    def _step(self, access: Instruction) -> int | None:
        """Return how many bytes lie between what two lanes reach; None where that is not known.

        Nor is it where accesses are vetted, which asks all lanes together.
        """
        plan, pointer = self.plan, pointer_of(access)
        if plan.vetting is not None:
            return None
        origin = plan.origins.of(pointer)
        if origin is not None and origin.kind == "stack":
            return plan.memory(origin.name)[1]
        ramp = plan.ramps.of(pointer)
        return None if ramp is None else ramp.step

    # The frame is not `noalias`: pointers to a lane's own arrays are kept in it.
    def _assemble(self, symbol: str, loop: int) -> str:
        plan = self.plan
        allocas = [
            f"{place} = alloca {plan.type_of(value)}" for value, place in self._locals.items()
        ]
        allocas += [
            f"%in{_plain(phi.result)} = alloca {plan.type_of(phi.result)}"
            for piece in plan.flow.region(self.start)
            for phi in plan.flow.phis[piece.label]
        ]
        head = (
            f"define internal void {symbol}(ptr noalias nocapture readonly %buffers, "
            "ptr noalias nocapture readonly %first, ptr %frame, i64 %from, "
            "i64 %end, ptr noalias nocapture writeonly %next, ptr noalias nocapture %vet)"
            f"{plan.flow.function.attributes} {{"
        )
        guard = self._guard
        lines = [
            head,
            "enter:",
            *(f"  {line}" for line in (*allocas, *self._before)),
            *(f"  {line}" for line in (guard.before if guard else ())),
            *(f"  {line}" for line in self._opaque.before),
            "  br label %lane",
            "lane:",
            "  %i = phi i64 [ %from, %enter ], [ %i.next, %latch ]",
            "  %i32 = trunc i64 %i to i32",
            *(f"  {line}" for line in self._head),
            *(f"  {line}" for line in (guard.head if guard else ())),
            f"  br label {_label(self.start)}",
            *self._body,
            "latch:",
            *(f"  {line}" for line in (guard.latch() if guard else ())),
            "  %i.next = add nuw nsw i64 %i, 1",
            "  %more = icmp ult i64 %i.next, %end",
            f"  br i1 %more, label %lane, label %leave, !llvm.loop !{loop}",
            "leave:",
            *(f"  {line}" for line in (guard.leave() if guard else ())),
            "  ret void",
            "}",
        ]
        return "\n".join(lines)

    def _hoist(self, piece: Piece, live: frozenset[str]) -> None:
        """Compute before the loop what every lane computes alike at the region's start."""
        uniformity = self.plan.uniformity
        writes = False
        for i in piece.instructions:
            operation = i.operation
            is_asked = self._guard is not None and self._guard.is_asked(i)
            writes |= not is_asked and _may_write(i)
            is_uniform = i.result and i.result not in uniformity.varying
            if not is_uniform or i.result in uniformity.recipes or i.result in uniformity.fields:
                continue
            if operation not in _MOVABLE or (operation == "load" and writes):
                continue
            if all(self._is_ready(o, live) for o in i.operands):
                text = self._text(i.text, lambda name: self._uniform(name))
                self._known[i.result] = name = f"%{_plain(i.result)}"
                self._locals.pop(i.result, None)
                self._before.append(f"{name} = {text}")

    def _is_ready(self, name: str, live: frozenset[str]) -> bool:
        if name not in self.plan.flow.definitions or name in self._known:
            return True
        uniformity = self.plan.uniformity
        return name not in uniformity.varying and (name in uniformity.recipes or name in live)

    def _ready(self, name: str) -> str | None:
        """Return the name of a value that is one for all lanes, if it is known before the loop."""
        is_made_here = name in self._locals and name not in self._known
        is_ready = not is_made_here and self._is_ready(name, self.plan.live[self.start])
        return self._uniform(name) if is_ready else None

    def _uniform(self, name: str) -> str:
        if name in self._known:
            return self._known[name]
        return self._recipe(name) if name in self.plan.uniformity.recipes else self._loaded(name)

    def _loaded(self, value: str) -> str:
        """Load what the frame kept of a value; one load serves all lanes where it is uniform."""
        if value in self._kept:
            return self._kept[value]
        is_uniform = value not in self.plan.uniformity.varying
        lines, index = (self._before, "%from") if is_uniform else (self._head, "%i")
        name = f"%{_plain(value)}.kept"
        type_, place = self.plan.type_of(value), f"{name}.at"
        lines += self._frame_place(place, value, index)
        stored = "i8" if type_ == "i1" else type_
        group = "" if is_uniform else _GROUP.format(group=self.plan.group)
        if stored == type_:
            lines.append(f"{name} = load {type_}, ptr {place}{group}")
        else:
            lines.append(f"{name}.byte = load i8, ptr {place}{group}")
            lines.append(f"{name} = trunc i8 {name}.byte to i1")
        self._kept[value] = name
        if value not in self._locals:
            self._known[value] = name
        return name

    def _frame_place(self, place: str, value: str, index: str) -> list[str]:
        type_ = self.plan.type_of(value)
        stored = "i8" if type_ == "i1" else type_
        offset = self.plan.slot(value)
        return [
            f"{place}.all = getelementptr inbounds i8, ptr %frame, i64 {offset}",
            f"{place} = getelementptr inbounds {stored}, ptr {place}.all, i64 {index}",
        ]

    def _recipe(self, value: str) -> str:
        """Compute a value that needs nothing but the arguments and the thread's attributes."""
        if value in self._known:
            return self._known[value]
        i = self.plan.flow.definitions[value]
        name = f"%{_plain(value)}"
        lines = self._head if value in self.plan.uniformity.varying else self._before
        if i.operation == "alloca":
            offset, stride = self.plan.memory(value)
            lines.append(f"{name}.all = getelementptr inbounds i8, ptr %frame, i64 {offset}")
            lines.append(f"{name} = getelementptr inbounds [{stride} x i8], ptr {name}.all, i64 %i")
        elif self.plan.uniformity.is_field(i):
            lines += self._field(name, i)
        elif (place := self._place_of_variable(i)) is not None:
            lines.append(f"{name}.track = getelementptr i8, ptr %vet, i64 {place}")
            aligned = f"!align !{self.plan.group + 4}"
            lines.append(f"{name} = load ptr, ptr {name}.track, {aligned}, !invariant.load !{{}}")
        else:
            text = _with_extent(self._text(i.text, self._recipe))
            if i.operation == "load":
                text += ", !invariant.load !{}"
            lines.append(f"{name} = {text}")
        self._known[value] = name
        return name

    def _place_of_variable(self, i: Instruction) -> int | None:
        """Return where the runtime says where a threadgroup variable is."""
        vetting = self.plan.vetting
        if vetting is None or i.callee != "@kw_threadgroup_alloc":
            return None
        return vetting.place_of_variable(i)

    def _field(self, name: str, load: Instruction) -> list[str]:
        """Load an attribute; those that count lanes are the first lane's plus the lane."""
        offset = self.plan.uniformity.field_offset(load)
        type_ = load.text.split()[1].rstrip(",")
        lines = [
            f"{name}.field = getelementptr inbounds i8, ptr %first, i64 {offset}",
            f"{name}.first = load {type_}, ptr {name}.field, align 4, !invariant.load !{{}}",
        ]
        self._before += lines
        if load.result not in self.plan.uniformity.varying:
            return [f"{name} = add {type_} {name}.first, 0"]
        if type_ == "i32":
            return [f"{name} = add i32 {name}.first, %i32"]
        # Of two words the first counts x; the second is y, or counts lanes as well.
        if offset in (0, 12):
            return [
                f"{name}.high = and i64 {name}.first, -4294967296",
                f"{name}.low = trunc i64 {name}.first to i32",
                f"{name}.x = add i32 {name}.low, %i32",
                f"{name}.wide = zext i32 {name}.x to i64",
                f"{name} = or disjoint i64 {name}.high, {name}.wide",
            ]
        raise UnknownAssemblyError(load.text)

    def _piece(self, piece: Piece) -> None:
        """Write one piece."""
        flow, plan = self.plan.flow, self.plan
        self._renamed = {}
        self._body.append(f"{_label(piece.label)[1:]}:")
        for phi in flow.phis[piece.label]:
            name = self._renamed[phi.result] = f"%{_plain(phi.result)}"
            self._line(f"{name} = load {plan.type_of(phi.result)}, ptr %in{_plain(phi.result)}")
            self._keep(phi.result)
        for i in piece.instructions:
            self._instruction(i, piece)
        for phi, value in flow.leaving[piece.label]:
            text = self._operand(value)
            self._line(f"store {plan.type_of(phi.result)} {text}, ptr %in{_plain(phi.result)}")
        if piece.stop is not None:
            self._leave(piece.stop.number, plan.live[piece.successors[0]])
        elif piece.terminator is not None and piece.terminator.operation == "ret":
            self._leave(0, frozenset())
        elif self._guard is not None and not piece.successors:
            # What no thread may reach; what led there must not be taken for impossible.
            for line in self._guard.suspect("true"):
                self._line(line)
            self._leave(0, frozenset())
        elif piece.terminator is not None:
            self._line(self._text(piece.terminator.text, self._operand))

    def _instruction(self, i: Instruction, piece: Piece) -> None:
        uniformity = self.plan.uniformity
        is_conditional = piece.label != self.start
        is_elsewhere = i.result in uniformity.recipes or i.result in self._known
        if i.operation == "phi" or is_elsewhere or i.result in uniformity.fields:
            return
        if i.operation == "call" and _DROPPED.search(i.callee):
            return
        if self._guard is not None:
            is_asked = self._guard.is_asked(i)
            ask = self._guard.ask if is_asked else self._guard.ask_of_own
            for line in ask(i, self._operand, is_conditional):
                self._line(line)
            if is_asked:
                return
        text = self._text(i.text, self._operand)
        if i.operation in ("load", "store") and "atomic" not in text and "volatile" not in text:
            text += _GROUP.format(group=self.plan.group)
            text += self.plan.aliasing.of(i) if self.plan.aliasing is not None else ""
        if not i.result:
            self._line(text)
            return
        name = self._renamed[i.result] = f"%{_plain(i.result)}"
        may_move = i.operation == "load" and self._stores and self._shape.may_mask(piece)
        for line in self._opaque.load(name, text) if may_move else (f"{name} = {text}",):
            self._line(line)
        self._keep(i.result)

    def _keep(self, value: str) -> None:
        if value in self._locals:
            type_, name = self.plan.type_of(value), self._renamed[value]
            self._line(f"store {type_} {name}, ptr {self._locals[value]}")

    def _operand(self, name: str) -> str:
        """Return the name of a value in the piece at hand, loaded where need be."""
        if name in self._renamed:
            return self._renamed[name]
        if name in self._known:
            return self._known[name]
        if name in self.plan.uniformity.recipes:
            return self._recipe(name)
        if name in self._locals:
            self._fresh += 1
            loaded = self._renamed[name] = f"%{_plain(name)}.use{self._fresh}"
            self._line(f"{loaded} = load {self.plan.type_of(name)}, ptr {self._locals[name]}")
            return loaded
        if name in self.plan.flow.definitions:
            raise UnknownAssemblyError(f"{name} is not available")
        return name

    def _leave(self, number: int, live: frozenset[str]) -> None:
        """Store what the next region needs and this one has made, and where the lane waits."""
        group = _GROUP.format(group=self.plan.group)
        for value in sorted(live - self.plan.uniformity.recipes):
            if value in self._kept and value not in self._locals:
                continue
            text, type_ = self._operand(value), self.plan.type_of(value)
            self._fresh += 1
            place = f"%keep{self._fresh}"
            for line in self._frame_place(place, value, "%i"):
                self._line(line)
            if type_ == "i1":
                self._line(f"{place}.byte = zext i1 {text} to i8")
                type_, text = "i8", f"{place}.byte"
            self._line(f"store {type_} {text}, ptr {place}{group}")
        if self.plan.flow.stops:
            self._fresh += 1
            self._line(f"%next{self._fresh} = getelementptr inbounds i32, ptr %next, i64 %i")
            self._line(f"store i32 {number}, ptr %next{self._fresh}{group}")
        self._line("br label %latch")

    def _line(self, text: str) -> None:
        self._body.append(f"  {text}")

    def _text(self, text: str, name_of: Callable[[str], str]) -> str:
        """Rename the values and labels of an instruction."""

        def renamed(found: re.Match[str]) -> str:
            name = found[0]
            if name == self.plan.uniformity.buffers:
                return "%buffers"
            if name in self.plan.flow.definitions:
                return name_of(name)
            return _label(name) if name in self.plan.flow.pieces else name

        return NAME.sub(renamed, text)


def _may_write(i: Instruction) -> bool:
    """Say whether an instruction may write memory; LLVM's functions of numbers do not."""
    if i.operation == "call":
        is_pure = i.callee.startswith("@llvm.") and "ptr" not in i.text
        return not is_pure and not _DROPPED.search(i.callee)
    return i.operation in ("store", "atomicrmw", "cmpxchg")


def _with_extent(call: str) -> str:
    """Tell LLVM how large a threadgroup variable is: loads of it may then leave the loop."""
    return _VARIABLE.sub(rf"call dereferenceable(\2) align {_LINE_BYTES} ptr \1\2", call)


def _plain(name: str) -> str:
    return "v" + re.sub(r"\W", "_", name[1:])


def _label(name: str) -> str:
    return "%b" + re.sub(r"\W", "_", name[1:])
