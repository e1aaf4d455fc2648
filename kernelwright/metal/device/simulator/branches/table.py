"""The tables that a watching build keeps of its conditions, in the library that is loaded."""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from math import inf, isfinite
from pathlib import Path

from kernelwright.metal.device.base import Condition, ForcedCondition
from kernelwright.metal.device.simulator.branches.watch import COMPARED, FORCED, SEEN, Site
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.native import load_library


class ConditionTable:
    """One library's conditions; a launch of it writes there."""

    def __init__(self, library: Path, sites: tuple[Site, ...]) -> None:
        """Find the tables of a library that is loaded or can be."""
        self._sites, count = sites, max(len(sites), 1)
        # What the library needs of it must be there first.
        load_runtime()
        loaded = load_library(library)
        self._seen = (ctypes.c_uint8 * (2 * count)).in_dll(loaded, SEEN)
        self._forced = (ctypes.c_uint8 * count).in_dll(loaded, FORCED)
        self._compared = (ctypes.c_double * (3 * count)).in_dll(loaded, COMPARED)

    def reset(self, forced: Iterable[ForcedCondition] = ()) -> None:
        """Forget what was seen, and force these conditions alone."""
        for table in (self._seen, self._forced, self._compared):
            ctypes.memset(table, 0, ctypes.sizeof(table))
        self._compared[::3] = [inf] * (len(self._compared) // 3)
        for one in forced:
            self._forced[one.site] = 2 if one.value else 1

    def read(self, launch: int, names: Sequence[str]) -> Iterator[Condition]:
        """Yield what was seen since, of a launch whose buffers hold arrays of these names."""
        for number, site in enumerate(self._sites):
            least, *pair = self._compared[3 * number : 3 * number + 3]
            yield Condition(
                launch=launch,
                site=number,
                file=site.file,
                line=site.line,
                column=site.column,
                kind=site.kind,
                constant=site.constant,
                loaded=(_name(site.loaded[0], names), _name(site.loaded[1], names)),
                loaded_bits=site.loaded_bits,
                is_known=site.is_known,
                is_special=site.is_special,
                is_chosen=site.is_chosen,
                is_fixed=site.is_fixed,
                ways=site.ways,
                ways_beyond_ends=site.ways_beyond_ends,
                numbers=site.numbers,
                reads_bits=site.reads_bits,
                compares=site.compares,
                parts=site.parts,
                as_integers=tuple(_name(buffer, names) for buffer in site.loads),
                was_false=bool(self._seen[2 * number]),
                was_true=bool(self._seen[2 * number + 1]),
                # JSON has no other numbers.
                compared=(pair[0], pair[1]) if isfinite(least) and site.has_values else None,
            )


def _name(buffer: int, names: Sequence[str]) -> str:
    return names[buffer] if 0 <= buffer < len(names) else ""
