"""An order of a function's blocks in which each loop is one stretch, for lanes to meet again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands in the order."""

    order: int
    end: int = 0
    """For the head of a loop, where the loop ends: behind all of its blocks. Else 0."""


def loop_order(successors: Mapping[str, Sequence[str]], entry: str, start: int) -> dict[str, Place]:
    """Return the place of each block that can be reached, numbered from `start` on.

    A block stands behind all that lead to it without going round a loop, and nothing stands between
    a loop's head and its end but the loop: a weak topological order (Bourdoncle, 1993). The
    function as a whole counts as a loop around its entry, for it may be called again.
    """
    places: dict[str, Place] = {}
    numbers = count(start)

    def place(head: str, members: frozenset[str]) -> None:
        order = next(numbers)
        inner = {m: [s for s in successors[m] if s in members and s != head] for m in members}
        for component in _components(inner, inner[head]):
            first = component[0]
            if len(component) > 1 or first in inner[first]:
                place(first, frozenset(component))
            else:
                places[first] = Place(next(numbers))
        places[head] = Place(order, next(numbers))

    place(entry, frozenset(successors))
    return places


def _components(successors: Mapping[str, Sequence[str]], starts: Sequence[str]) -> list[list[str]]:
    """Return the strongly connected components in topological order, the first one entered first.

    Tarjan's algorithm without recursion: a function may have thousands of blocks in a row.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_blocks: dict[str, None] = {}
    found: list[list[str]] = []
    for start in starts:
        path: list[tuple[str, Iterator[str]]] = []

        def enter(block: str, path: list[tuple[str, Iterator[str]]] = path) -> None:
            index[block] = low[block] = len(index)
            open_blocks[block] = None
            path.append((block, iter(successors[block])))

        if start not in index:
            enter(start)
        while path:
            block, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[block])
                if low[block] == index[block]:
                    found.append(_closed(open_blocks, block))
            elif following not in index:
                enter(following)
            elif following in open_blocks:
                low[block] = min(low[block], index[following])
    return found[::-1]


def _closed(open_blocks: dict[str, None], first: str) -> list[str]:
    """Take a component off the open blocks, of which `first` was entered before the others."""
    component: list[str] = []
    while not component or component[-1] != first:
        component.append(open_blocks.popitem()[0])
    return component[::-1]
