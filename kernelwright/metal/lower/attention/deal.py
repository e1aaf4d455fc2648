"""How the scores of some keys and queries are dealt out to the lanes that share a key."""

from dataclasses import dataclass

from kernelwright.metal.schedule import Attention


@dataclass(frozen=True, slots=True)
class Deal:
    """Which scores each of a key's lanes finishes and weighs, so that none is weighed twice.

    `alike` neighbours get the same scores. From one such set to the next the query changes first,
    then the key.
    """

    alike: int
    """Neighbouring lanes that get the same scores."""
    queries: int
    """Parts in which queries are dealt out."""
    keys: int
    """Parts in which keys are dealt out."""
    own_queries: int
    """Queries of which a lane gets scores."""
    own_keys: int
    """Keys of which a lane gets scores."""

    @classmethod
    def of(cls, schedule: Attention) -> "Deal":
        """Deal out as much as lanes can halve: what is a power of two."""
        queries = min(_power_of_two(schedule.queries), schedule.lanes)
        keys = min(_power_of_two(schedule.keys), schedule.lanes // queries)
        return cls(
            alike=schedule.lanes // (queries * keys),
            queries=queries,
            keys=keys,
            own_queries=schedule.queries // queries,
            own_keys=schedule.keys // keys,
        )

    @property
    def is_dealt(self) -> bool:
        """True where lanes get different scores."""
        return self.queries * self.keys > 1

    @property
    def apart(self) -> int:
        """Distance of lanes that get scores of the same queries and of the next keys."""
        return self.alike * self.queries

    def lines(self, lanes: int) -> list[str]:
        """Return what says which query and which key are a lane's own, among `lanes`."""
        found: list[str] = []
        if self.queries > 1:
            place = f"lane / {self.alike}" if self.alike > 1 else "lane"
            rest = f" % {self.queries}" if self.apart < lanes else ""
            found.append(f"uint own_query = {place}{rest};")
        if self.keys > 1:
            place = f"lane / {self.apart}" if self.apart > 1 else "lane"
            first = f"own_key * {self.apart}" if self.apart > 1 else "own_key"
            found.append(f"uint own_key = {place};")
            found.append(f"uint first_lane = thread_index_in_simdgroup - {first};")
        return found


def _power_of_two(number: int) -> int:
    """Return the largest power of two that divides a number."""
    return number & -number
