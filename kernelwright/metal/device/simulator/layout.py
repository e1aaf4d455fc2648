"""Records that Python and the runtime share, as assertions that the runtime is built with.

Both declare them; where a field lies is compared by the compiler, for each machine, before a
launch could misread one.
"""

import ctypes
from collections.abc import Iterator, Mapping

from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.counters import (
    BlockRecord,
    BlockTally,
    BufferTally,
    SiteTally,
    Tally,
)
from kernelwright.metal.device.simulator.record import UInt3
from kernelwright.metal.device.simulator.sanitizer import RawReport, RawReports
from kernelwright.metal.device.simulator.wide import thread_field

RECORDS: Mapping[str, type[ctypes.Structure]] = {
    "kw_uint3": UInt3,
    "kw::Buffer": native.RawBuffer,
    "kw::Argument": native.RawArgument,
    "kw::Code": native.RawCode,
    "kw::Request": native.RawRequest,
    "kw::Outcome": native.RawOutcome,
    "kw::BufferTally": BufferTally,
    "kw::Tally": Tally,
    "kw::BlockRecord": BlockRecord,
    "kw::BlockTally": BlockTally,
    "kw::SiteTally": SiteTally,
    "kw::Report": RawReport,
    "kw::Reports": RawReports,
}
"""Python's records by the names of the runtime's."""
_HEADERS = ("launch.h", "meter.h", "report.h")


def layout_text(records: Mapping[str, type[ctypes.Structure]] = RECORDS) -> str:
    """Return C++ that does not compile unless both sides agree."""
    lines = ["#include <stddef.h>", *(f'#include "{name}"' for name in _HEADERS)]
    for name, record in records.items():
        lines += _assertions(name, record)
    for field, offset in thread_field.OFFSETS.items():
        lines.append(_assertion(f"offsetof(kw_thread, {field})", offset))
    return "\n".join((*lines, ""))


def _assertions(name: str, record: type[ctypes.Structure]) -> Iterator[str]:
    yield _assertion(f"sizeof({name})", ctypes.sizeof(record))
    for entry in record._fields_:
        yield _assertion(f"offsetof({name}, {entry[0]})", getattr(record, entry[0]).offset)


def _assertion(what: str, value: int) -> str:
    return f'static_assert({what} == {value}, "Python takes {what} for {value}");'
