"""Where a lane stands among those that share products of few rows, as text."""

from dataclasses import dataclass

from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.gemv.tiling import Tiling


@dataclass(frozen=True, slots=True)
class Standing:
    """What a lane computes of its place: its columns, and its part of their terms."""

    tiling: Tiling

    def head(self, writer: Writer) -> list[str]:
        """Return the declarations that what follows needs."""
        schedule = self.tiling.schedule
        team = self._part_of_simdgroups(schedule.teams, f" / {schedule.strips}", schedule.strips)
        strip = self._part_of_simdgroups(schedule.strips, f" % {schedule.strips}", schedule.teams)
        side = f" % {schedule.lanes}" if schedule.lanes < 32 else ""
        head = [
            "uint matrix = threadgroup_position_in_grid.y;",
            "uint chunk = threadgroup_position_in_grid.z;",
            f"uint lane = thread_index_in_simdgroup{side};",
            f"uint slot = thread_index_in_simdgroup / {schedule.lanes};",
            f"uint team = {team};",
            f"uint strip = {strip};",
        ]
        lines = [self._first_column]
        if self._part == "part":
            lines.insert(0, f"uint part = chunk * {schedule.strips} + strip;")
        body = Writer(lines=[*lines, *writer.lines])
        return [line for line in head if body.mentions(line.split()[1])] + lines

    def _part_of_simdgroups(self, count: int, operation: str, others: int) -> str:
        """Return which part of the work a simdgroup has, of `count` that `others` have too."""
        simdgroup = "simdgroup_index_in_threadgroup"
        return simdgroup if others == 1 or count == 1 else f"{simdgroup}{operation}"

    @property
    def _first_column(self) -> str:
        """Declare the first of a simdgroup's columns, or of a lane's."""
        schedule, group = self.tiling.schedule, "threadgroup_position_in_grid.x"
        place = f"{group} * {schedule.teams} + team" if schedule.teams > 1 else group
        if self.tiling.is_along:
            name = "first" if schedule.columns > 1 else "column"
            return f"uint {name} = {_times(place, schedule.columns)};"
        name = "start" if schedule.vector > 1 else "column"
        place = f"{_times(place, schedule.lanes)} + lane"
        return f"uint {name} = {_times(place, schedule.vector)};"

    @property
    def _part(self) -> str:
        """Return which part of a dot product's terms a simdgroup has."""
        schedule = self.tiling.schedule
        if schedule.chunks > 1:
            return "part" if schedule.strips > 1 else "chunk"
        return "strip" if schedule.strips > 1 else ""

    @property
    def first_along(self) -> str:
        """Return where a lane's terms begin, where lanes run along a dot product."""
        place = f"{self._part} * 32 + lane" if self._part else "lane"
        return _times(place, self.tiling.schedule.vector)

    @property
    def share_across(self) -> tuple[str, str]:
        """Return where a lane's terms begin and its simdgroup's end, where lanes have columns.

        They are neighbours: terms of alternating signs then cancel as they are added.
        """
        turns, parts, step = self.tiling.turns, self.tiling.parts, self.tiling.step
        own = _times("slot", self.tiling.schedule.terms) if self.tiling.slots > 1 else ""
        if parts == 1:
            return own or "0", str(self.tiling.dense.depth)
        share = f" * {turns // parts * step}"
        if turns % parts:
            share = f" * {turns} / {parts}" + (f" * {step}" if step > 1 else "")
        first = f"{self._part}{share}" + (f" + {own}" if own else "")
        return first, f"({self._part} + 1){share}"

    @property
    def column_in_tile(self) -> str:
        """Return which of its threadgroup's columns a lane has a sum of."""
        schedule = self.tiling.schedule
        team = "team" if schedule.teams > 1 else ""
        if self.tiling.is_along:
            whole = _times(team, schedule.columns) if team else ""
            return " + ".join(filter(None, (whole, "c" if schedule.columns > 1 else ""))) or "0"
        lane = f"{_times(team, schedule.lanes)} + lane" if team else "lane"
        return _times(lane, schedule.vector) + (" + i" if schedule.vector > 1 else "")

    def shared(self, strip: str, column: str) -> str:
        """Return where a strip's sum of a column stands in threadgroup memory."""
        strips, tokens = self.tiling.schedule.strips, self.tiling.dense.tokens
        counters = [strip] * (strips > 1) + ["token"] * (tokens > 1)
        return "".join(f"[{c}]" for c in (*counters, column))


def _times(place: str, factor: int) -> str:
    if factor == 1:
        return place
    return f"({place}) * {factor}" if " + " in place else f"{place} * {factor}"
