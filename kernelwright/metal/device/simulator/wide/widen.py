"""A listing whose kernels run 32 lanes at a time: one function for each stretch between waits."""

import itertools
import re
from collections.abc import Iterator

from kernelwright.metal.device.simulator.wide.aliasing import Aliasing
from kernelwright.metal.device.simulator.wide.assembly import (
    Function,
    Module,
    NotWidenedError,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.flatten import flattened
from kernelwright.metal.device.simulator.wide.flow import Flow, Stop
from kernelwright.metal.device.simulator.wide.lag import may_lag
from kernelwright.metal.device.simulator.wide.marked import MARKED
from kernelwright.metal.device.simulator.wide.opposite import with_single_counters
from kernelwright.metal.device.simulator.wide.prefix import with_prefix_sums
from kernelwright.metal.device.simulator.wide.region import SIMD_WIDTH, Frame, Plan, Region
from kernelwright.metal.device.simulator.wide.scalarize import Scalarizer
from kernelwright.metal.device.simulator.wide.shape import Loops
from kernelwright.metal.device.simulator.wide.thread_field import OFFSETS
from kernelwright.metal.device.simulator.wide.uniform import Uniformity
from kernelwright.metal.device.simulator.wide.vetting import Vetting

MOST_STOPS = 256
MOST_PIECES = 1500
MOST_FRAME_BYTES = 256 * 1024
_ENTRY = re.compile(r'^@"(?:\\01_?)?kw_entry:([^"]*)"$')
_CALLS = frozenset(("@kw_current", "@kw_barrier", "@kw_simdgroup", "@kw_simdgroup_barrier"))
_SIMDGROUP_FIELDS = frozenset(OFFSETS[name] for name in ("lane", "simdgroup", "active_lanes"))
"""Where kw_thread says the lane, the simdgroup and how many lanes it has."""
_KINDS = {"simdgroup": 1, "simdgroup_barrier": 2, "barrier": 3}
_METADATA = re.compile(r"^!(\d+) = ")
_REASON = "; not widened: "
_NARROW = re.compile(
    r'^!(\d+) = .*\n!\d+ = !{!"llvm.loop.vectorize.enable", i1 false}', re.MULTILINE
)
_VARIABLE_ALIGNMENT = 64
"""Of threadgroup variables, in threadgroup_memory.h."""
_MOST_LANES = 1024


def widen(listing: str, *, vets: bool = False) -> str:
    """Return a listing with a `kw_wide:` table in the place of each kernel that can be cut.

    A kernel stays out when a function that it calls waits, when the way in which it uses its
    attributes is not understood, or when it is too large. With `vets` the listing comes from a
    sanitizing build (see marked.py), each access is vetted and the tables are called `kw_vet:`;
    kernels of which an access may be to anything stay out as well.
    """
    module = Module.read(listing)
    entries = {name: m[1] for name in module.spans if (m := _ENTRY.match(name))}
    numbers = [int(m[1]) for m in map(_METADATA.match, module.lines) if m]
    group = max(numbers, default=0) + 1
    written: list[str] = []
    reasons: list[str] = []
    scalarizer = Scalarizer()
    nodes = itertools.count(group + 9)
    for place, (entry, name) in enumerate(entries.items()):
        try:
            written.append(
                _Kernel(module, entry, name, place, group, scalarizer, nodes, vets=vets).write()
            )
        except UnknownAssemblyError as e:
            reasons.append(f"{_REASON}{name}: {' '.join(e.reason.split())}")
    written += (d for n, d in scalarizer.declarations.items() if f" {n}(" not in listing)
    loops = _loops(group)
    metadata = [
        f"!{group} = distinct !{{}}",
        f'!{group + 1} = !{{!"llvm.loop.parallel_accesses", !{group}}}',
        f'!{group + 2} = !{{!"llvm.loop.vectorize.enable", i1 true}}',
        f"!{loops.wide} = distinct !{{!{loops.wide}, !{group + 1}, !{group + 2}}}",
        f"!{group + 4} = !{{i64 {_VARIABLE_ALIGNMENT}}}",
        f"!{loops.narrow} = distinct !{{!{loops.narrow}, !{group + 6}}}",
        f'!{group + 6} = !{{!"llvm.loop.vectorize.enable", i1 false}}',
        f"!{loops.unrolled} = distinct !{{!{loops.unrolled}, !{group + 8}}}",
        f'!{group + 8} = !{{!"llvm.loop.unroll.full"}}',
    ]
    return "\n".join((*reasons, *_without(module, entries), *written, *metadata, ""))


def reasons_of(listing: str) -> tuple[str, ...]:
    """Return why kernels of a widened listing stay on fibers, after their names."""
    lines = (line for line in listing.split("\n") if line.startswith(_REASON))
    return tuple(line.removeprefix(_REASON) for line in lines)


def has_narrow_regions(listing: str) -> bool:
    """Say whether lanes of a widened listing's regions make vectors of their own elements."""
    found = _NARROW.search(listing)
    return found is not None and f"!llvm.loop !{found[1]}\n" in listing


def _loops(group: int) -> Loops:
    """Return the nodes of a listing's loops; `group` is the first of those that are free."""
    return Loops(wide=group + 3, narrow=group + 5, unrolled=group + 7)


def _without(module: Module, functions: dict[str, str]) -> list[str]:
    """Return a listing's lines without some functions."""
    dropped = {n for f in functions for n in range(module.spans[f][0], module.spans[f][1] + 1)}
    return [line for number, line in enumerate(module.lines) if number not in dropped]


class _Kernel:
    """One kernel's regions and its table."""

    def __init__(
        self,
        module: Module,
        entry: str,
        name: str,
        place: int,
        group: int,
        scalarizer: Scalarizer,
        numbers: Iterator[int],
        *,
        vets: bool,
    ) -> None:
        self._module, self._name, self._place, self._group = module, name, place, group
        self._numbers = numbers
        function = module.function(entry)
        # The marks of a sanitizing build stand for whole accesses.
        self._loops = _loops(group)
        self._flow = Flow(function if vets else self._rewritten(scalarizer.apply(function)))
        self._vets = vets
        self._refuse_waits_elsewhere(entry)
        count = len(self._flow.stops)
        if not (vets or count) or count > MOST_STOPS or len(self._flow.pieces) > MOST_PIECES:
            raise NotWidenedError("its threads wait nowhere, or at too many places")

    def _rewritten(self, function: Function) -> Function:
        """Return a function with less for each lane to decide and to count."""
        unrolled = f", !llvm.loop !{self._loops.unrolled}"
        counted = with_single_counters(flattened(function), unrolled)
        return with_prefix_sums(counted, self._module, unrolled)

    def _refuse_waits_elsewhere(self, entry: str) -> None:
        called = self._module.reachable(self._module.references(entry) - _CALLS)
        if called & _CALLS:
            raise NotWidenedError(
                "a function that it calls waits and stands alone; declare it inline"
            )
        for name in called & frozenset(self._module.spans):
            if any(MARKED.match(n) for n in self._module.references(name)):
                raise NotWidenedError("a function that it calls reaches memory and stands alone")

    def write(self) -> str:
        """Return the functions and the table."""
        flow, frame = self._flow, Frame()
        uniformity = Uniformity(flow)
        if may_lag(flow, uniformity):
            raise NotWidenedError("its lanes may wait at one place in different rounds of a loop")
        crossing = flow.crossing()
        vetting = Vetting(self._module, flow, uniformity) if self._vets else None
        live = flow.live(crossing)
        aliasing = None if self._vets else Aliasing(self._module, flow, self._numbers)
        plan = Plan(
            self._module, flow, uniformity, frame, live, crossing, self._group, vetting, aliasing
        )
        regions = [
            Region(plan, number, start).write(self._symbol(number), self._loops)
            for number, start in enumerate(flow.starts())
        ]
        stops = ", ".join(self._stop(plan, stop) for stop in flow.stops)
        if frame.size > MOST_FRAME_BYTES:
            raise NotWidenedError(
                f"its lanes keep {frame.size} bytes across waits, more than {MOST_FRAME_BYTES}"
            )
        names = ", ".join(f"ptr {self._symbol(n)}" for n in range(len(regions)))
        tables = (f"@kw_regions_{self._place}", f"@kw_stops_{self._place}")
        fields = f"i64 {frame.size}, i64 {len(regions)}, ptr {tables[0]}, ptr {tables[1]}"
        written = [
            *regions,
            *(aliasing.metadata if aliasing is not None else ()),
            f"{tables[0]} = internal constant [{len(regions)} x ptr] [{names}]",
            f"{tables[1]} = internal constant [{len(flow.stops)} x {_STOP}] [{stops}]",
        ]
        wide = f"{_WIDE} {{ {fields} }}"
        if vetting is None:
            written.append(f'@"kw_wide:{self._name}" = constant {wide}')
        else:
            written += self._vet(vetting, wide, _lanes(plan))
        return "\n".join(written)

    def _vet(self, vetting: Vetting, wide: str, lanes: int) -> list[str]:
        """Write `Vet` of vet.h, and what is tracked."""
        records = [", ".join(f"i32 {n}" for n in record) for record in vetting.table()]
        tracked, type_ = f"@kw_tracked_{self._place}", f"[{len(records)} x {_TRACKED}]"
        content = ", ".join(f"{_TRACKED} {{ {record} }}" for record in records)
        fields = f"{wide}, i64 {lanes}, i64 {len(records)}, ptr {tracked}"
        return [
            f"{tracked} = internal constant {type_} [{content}]",
            f'@"kw_vet:{self._name}" = constant {{ {_WIDE}, i64, i64, ptr }} {{ {fields} }}',
        ]

    def _symbol(self, number: int) -> str:
        return f"@kw_region_{self._place}_{number}"

    def _stop(self, plan: Plan, stop: Stop) -> str:
        """Write one record of `Stop` in wide.h."""
        kind = _KINDS[stop.kind]
        if stop.kind != "simdgroup":
            flags, site = map(_number, stop.arguments)
            values = (kind, flags, site, 0, 0, 0, 0)
            return _stop_record("null", values)
        given, given_size, result, result_size, combine, site_text = stop.arguments
        if not combine.startswith("@"):
            raise UnknownAssemblyError(f"{combine} is not a function")
        given_at, given_stride = self._memory(plan, given)
        result_at, result_stride = self._memory(plan, result)
        sizes = (_number(given_size), _number(result_size))
        if (given_stride, result_stride) != sizes:
            raise UnknownAssemblyError(f"{given} and {result} are not as large as what they carry")
        values = (kind, 0, _number(site_text), *sizes, given_at, result_at)
        return _stop_record(combine, values)

    def _memory(self, plan: Plan, pointer: str) -> tuple[int, int]:
        definition = plan.flow.definitions.get(pointer)
        if definition is None or definition.operation != "alloca":
            raise UnknownAssemblyError(f"{pointer} is not a variable")
        return plan.memory(pointer)


def _lanes(plan: Plan) -> int:
    """Return how many threads of a row one call may run: all, where no simdgroup matters."""
    numbers = plan.uniformity.fields.values()
    is_plain = not plan.flow.stops and plan.frame.size == 0
    return _MOST_LANES if is_plain and _SIMDGROUP_FIELDS.isdisjoint(numbers) else SIMD_WIDTH


_WIDE = "{ i64, i64, ptr, ptr }"
_TRACKED = "{ i32, i32, i32, i32, i32, i32, i32, i32 }"
_STOP = "{ ptr, i32, i32, i32, i32, i32, i32, i32, i32 }"


def _stop_record(combine: str, values: tuple[int, ...]) -> str:
    numbers = ", ".join(f"i32 {v}" for v in (*values, 0))
    return f"{_STOP} {{ ptr {combine}, {numbers} }}"


def _number(text: str) -> int:
    if not text.isdigit():
        raise UnknownAssemblyError(f"{text} is not a number")
    return int(text)
