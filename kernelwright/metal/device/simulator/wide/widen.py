"""A listing whose kernels run 32 lanes at a time: one function for each stretch between waits."""

import re

from kernelwright.metal.device.simulator.wide.assembly import Module, UnknownAssemblyError
from kernelwright.metal.device.simulator.wide.flow import Flow, Stop
from kernelwright.metal.device.simulator.wide.region import Frame, Plan, Region
from kernelwright.metal.device.simulator.wide.uniform import Uniformity

MOST_STOPS = 256
MOST_PIECES = 1500
MOST_FRAME_BYTES = 256 * 1024
_ENTRY = re.compile(r'^@"(?:\\01_?)?kw_entry:([^"]*)"$')
_CALLS = frozenset(("@kw_current", "@kw_barrier", "@kw_simdgroup", "@kw_simdgroup_barrier"))
_KINDS = {"simdgroup": 1, "simdgroup_barrier": 2, "barrier": 3}
_METADATA = re.compile(r"^!(\d+) = ")


def widen(listing: str) -> str:
    """Return a listing with a `kw_wide:` table in the place of each kernel that can be cut.

    A kernel stays out when a function that it calls waits, when the way in which it uses its
    attributes is not understood, or when it is too large.
    """
    module = Module.read(listing)
    entries = {name: m[1] for name in module.spans if (m := _ENTRY.match(name))}
    numbers = [int(m[1]) for m in map(_METADATA.match, module.lines) if m]
    group = max(numbers, default=0) + 1
    written: list[str] = []
    for place, (entry, name) in enumerate(entries.items()):
        try:
            written.append(_Kernel(module, entry, name, place, group).write())
        except UnknownAssemblyError:
            continue
    metadata = [
        f"!{group} = distinct !{{}}",
        f'!{group + 1} = !{{!"llvm.loop.parallel_accesses", !{group}}}',
        f'!{group + 2} = !{{!"llvm.loop.vectorize.enable", i1 true}}',
        f"!{group + 3} = distinct !{{!{group + 3}, !{group + 1}, !{group + 2}}}",
    ]
    return "\n".join((*_without(module, entries), *written, *metadata, ""))


def _without(module: Module, functions: dict[str, str]) -> list[str]:
    """Return a listing's lines without some functions."""
    dropped = {n for f in functions for n in range(module.spans[f][0], module.spans[f][1] + 1)}
    return [line for number, line in enumerate(module.lines) if number not in dropped]


class _Kernel:
    """One kernel's regions and its table."""

    def __init__(self, module: Module, entry: str, name: str, place: int, group: int) -> None:
        self._module, self._name, self._place, self._group = module, name, place, group
        self._flow = Flow(module.function(entry))
        if not 0 < len(self._flow.stops) <= MOST_STOPS or len(self._flow.pieces) > MOST_PIECES:
            raise UnknownAssemblyError(f"{name} has too few or too many waits")
        self._refuse_waits_elsewhere(entry)

    def _refuse_waits_elsewhere(self, entry: str) -> None:
        called = self._module.reachable(self._module.references(entry) - _CALLS)
        if called & _CALLS:
            raise UnknownAssemblyError(f"{self._name} calls functions that wait")

    def write(self) -> str:
        """Return the functions and the table."""
        flow, frame = self._flow, Frame()
        uniformity = Uniformity(flow)
        crossing = flow.crossing()
        plan = Plan(
            self._module, flow, uniformity, frame, flow.live(crossing), crossing, self._group
        )
        regions = [
            Region(plan, number, start).write(self._symbol(number), self._group + 3)
            for number, start in enumerate(flow.starts())
        ]
        stops = ", ".join(self._stop(plan, stop) for stop in flow.stops)
        if frame.size > MOST_FRAME_BYTES:
            raise UnknownAssemblyError(f"{self._name} keeps {frame.size} bytes")
        names = ", ".join(f"ptr {self._symbol(n)}" for n in range(len(regions)))
        tables = (f"@kw_regions_{self._place}", f"@kw_stops_{self._place}")
        fields = f"i64 {frame.size}, i64 {len(regions)}, ptr {tables[0]}, ptr {tables[1]}"
        return "\n".join(
            (
                *regions,
                f"{tables[0]} = internal constant [{len(regions)} x ptr] [{names}]",
                f"{tables[1]} = internal constant [{len(flow.stops)} x {_STOP}] [{stops}]",
                f'@"kw_wide:{self._name}" = constant {{ i64, i64, ptr, ptr }} {{ {fields} }}',
            )
        )

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


_STOP = "{ ptr, i32, i32, i32, i32, i32, i32, i32, i32 }"


def _stop_record(combine: str, values: tuple[int, ...]) -> str:
    numbers = ", ".join(f"i32 {v}" for v in (*values, 0))
    return f"{_STOP} {{ ptr {combine}, {numbers} }}"


def _number(text: str) -> int:
    if not text.isdigit():
        raise UnknownAssemblyError(f"{text} is not a number")
    return int(text)
