"""Places the nodes of an acyclic graph in layers, top to bottom, and routes edges around them."""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

Key = tuple[str, int]
"""Names a node: a kind and a number."""
Point = tuple[float, float]
_SWEEPS = 8
_BEND = 8.0
"""Room that an edge takes where it passes between nodes."""
_STRAIGHT = 4.0
"""How much more a straight long edge counts than a box above the middle of what it reads."""
BEND = "bend"


@dataclass(frozen=True)
class Box:
    """A node's size, and whether it belongs in the first or the last layer."""

    width: float
    height: float
    is_first: bool = False
    is_last: bool = False


@dataclass(frozen=True)
class Edge:
    """A line between two nodes; `leaves` and `enters` count from the left sides of their boxes."""

    source: Key
    target: Key
    leaves: float
    enters: float


@dataclass(frozen=True)
class _Links:
    """Edges between neighbouring layers, by the nodes that they enter and those that they leave."""

    into: Mapping[Key, Sequence[Edge]]
    out_of: Mapping[Key, Sequence[Edge]]

    @classmethod
    def of(cls, edges: Sequence[Edge]) -> "_Links":
        into: dict[Key, list[Edge]] = {}
        out_of: dict[Key, list[Edge]] = {}
        for edge in edges:
            into.setdefault(edge.target, []).append(edge)
            out_of.setdefault(edge.source, []).append(edge)
        return cls(into, out_of)


@dataclass(frozen=True)
class Layout:
    """Where everything is."""

    corners: Mapping[Key, Point]
    """The upper left corner of each box."""
    routes: tuple[tuple[Point, ...], ...]
    """For each edge, pairs of points: a straight line joins each pair, a bend two pairs."""
    width: float
    height: float


def arrange(boxes: Mapping[Key, Box], edges: Sequence[Edge], *, gap: float, drop: float) -> Layout:
    """Place boxes so that every edge leads down, with few crossings; always in the same way.

    `gap` parts the neighbours of a layer, `drop` parts layers.
    """
    layer_of = _layer_of(boxes, edges)
    placed = dict(boxes)
    chains = [_chain(edge, number, layer_of) for number, edge in enumerate(edges)]
    for number, chain in enumerate(chains):
        for layer, bend in enumerate(chain[1:-1], layer_of[edges[number].source] + 1):
            placed[bend] = Box(_BEND, 0)
            layer_of[bend] = layer
    links = _Links.of(
        [link for edge, chain in zip(edges, chains, strict=True) for link in _links(edge, chain)]
    )
    layers = _ordered(layer_of, links)
    left = _columns(layers, placed, links, gap)
    heights = [max(placed[key].height for key in layer) for layer in layers]
    tops = [sum(heights[:i]) + i * drop for i in range(len(layers))]
    spans = {key: (tops[i], tops[i] + heights[i]) for key, i in layer_of.items()}
    corners = {
        key: (left[key], sum(spans[key]) / 2 - box.height / 2) for key, box in placed.items()
    }
    return Layout(
        corners={key: corners[key] for key in boxes},
        routes=tuple(
            _route(edge, chain, placed, corners, spans)
            for edge, chain in zip(edges, chains, strict=True)
        ),
        width=max((left[key] + box.width for key, box in placed.items()), default=0.0),
        height=tops[-1] + heights[-1] if layers else 0.0,
    )


def _layer_of(boxes: Mapping[Key, Box], edges: Sequence[Edge]) -> dict[Key, int]:
    """Put each box below all that it reads, and what reads nothing close to its readers."""
    layer = dict.fromkeys(boxes, 0)
    # An acyclic graph settles after as many rounds as its longest path has edges.
    for _ in boxes:
        before = dict(layer)
        for edge in edges:
            layer[edge.target] = max(layer[edge.target], layer[edge.source] + 1)
        if layer == before:
            break
    deepest = max(layer.values(), default=0)
    layer.update({key: deepest for key, box in boxes.items() if box.is_last})
    links = _Links.of(edges)
    for key, box in boxes.items():
        below = [layer[edge.target] for edge in links.out_of.get(key, ())]
        if key not in links.into and below and not box.is_first:
            layer[key] = min(below) - 1
    used = sorted(set(layer.values()))
    return {key: used.index(i) for key, i in layer.items()}


def _chain(edge: Edge, number: int, layer_of: Mapping[Key, int]) -> list[Key]:
    """Return an edge's ends with a bend in every layer that it passes."""
    passed = layer_of[edge.target] - layer_of[edge.source] - 1
    # A thousand layers to an edge are more than anybody reads.
    return [edge.source, *((BEND, number * 1000 + i) for i in range(passed)), edge.target]


def _links(edge: Edge, chain: Sequence[Key]) -> list[Edge]:
    """Cut an edge into links from one layer to the next."""
    links = [Edge(a, b, _BEND / 2, _BEND / 2) for a, b in pairwise(chain)]
    links[0] = replace(links[0], leaves=edge.leaves)
    links[-1] = replace(links[-1], enters=edge.enters)
    return links


def _ordered(layer_of: Mapping[Key, int], links: _Links) -> list[list[Key]]:
    """Order each layer by the middle of what its nodes are linked to; keep the best of some."""
    count = max(layer_of.values(), default=-1) + 1
    layers: list[list[Key]] = [[] for _ in range(count)]
    for key, i in layer_of.items():
        layers[i].append(key)
    best, fewest = layers, _crossings(layers, links)
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        layers = [list(layer) for layer in layers]
        place = {key: float(i) for layer in layers for i, key in enumerate(layer)}
        for layer in layers if is_down else layers[::-1]:
            middle = {key: _middle(key, place, links, is_down=is_down) for key in layer}
            layer.sort(key=lambda key, middle=middle: middle[key])  # type: ignore[misc]
            place.update({key: float(i) for i, key in enumerate(layer)})
        crossings = _crossings(layers, links)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _middle(key: Key, place: Mapping[Key, float], links: _Links, *, is_down: bool) -> float:
    # The offset within a wide box tells its links apart.
    if is_down:
        near = [place[e.source] + e.leaves * 1e-4 for e in links.into.get(key, ())]
    else:
        near = [place[e.target] + e.enters * 1e-4 for e in links.out_of.get(key, ())]
    return sum(near) / len(near) if near else place[key]


def _crossings(layers: Sequence[Sequence[Key]], links: _Links) -> int:
    place = {key: i for layer in layers for i, key in enumerate(layer)}
    total = 0
    for layer in layers:
        ends = sorted(
            ((place[e.source], e.leaves), (place[e.target], e.enters))
            for key in layer
            for e in links.out_of.get(key, ())
        )
        seen: list[tuple[int, float]] = []
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return total


def _columns(
    layers: Sequence[Sequence[Key]], boxes: Mapping[Key, Box], links: _Links, gap: float
) -> dict[Key, float]:
    """Give each box a left side near those of its neighbours, in order and without overlaps."""
    left: dict[Key, float] = {}
    for layer in layers:
        x = 0.0
        for key in layer:
            left[key] = x
            x += boxes[key].width + gap
    for sweep in range(3 * _SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = [_wanted(key, left, links, sweep) for key in layer]
            widths = [boxes[key].width + gap for key in layer]
            weights = [_weight(key, sweep) for key in layer]
            left.update(zip(layer, _apart(wanted, widths, weights), strict=True))
    least = min(left.values(), default=0.0)
    return {key: x - least for key, x in left.items()}


def _wanted(key: Key, left: Mapping[Key, float], links: _Links, sweep: int) -> float:
    """Return where a box's links would be straight; late sweeps look both ways."""
    above = [left[e.source] + e.leaves - e.enters for e in links.into.get(key, ())]
    below = [left[e.target] + e.enters - e.leaves for e in links.out_of.get(key, ())]
    near = above + below if sweep >= 2 * _SWEEPS else above if sweep % 2 == 0 else below
    return sum(near) / len(near) if near else left[key]


def _weight(key: Key, sweep: int) -> float:
    return _STRAIGHT if key[0] == BEND and sweep >= 2 * _SWEEPS else 1.0


def _apart(
    wanted: Sequence[float], widths: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Move positions as little as possible, in squares, until each box ends before the next.

    Pools adjacent violators: blocks of touching boxes stand where their wishes average.
    """
    offsets = [sum(widths[:i]) for i in range(len(widths))]
    blocks: list[tuple[float, float, int]] = []
    for wish, offset, weight in zip(wanted, offsets, weights, strict=True):
        total, mass, count = weight * (wish - offset), weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / mass:
            more, heavier, others = blocks.pop()
            total, mass, count = total + more, mass + heavier, count + others
        blocks.append((total, mass, count))
    starts = [total / mass for total, mass, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _route(
    edge: Edge,
    chain: Sequence[Key],
    boxes: Mapping[Key, Box],
    corners: Mapping[Key, Point],
    spans: Mapping[Key, tuple[float, float]],
) -> tuple[Point, ...]:
    (x, y), (to_x, to_y) = corners[edge.source], corners[edge.target]
    points = [
        (x + edge.leaves, y + boxes[edge.source].height),
        (x + edge.leaves, spans[edge.source][1]),
    ]
    for bend in chain[1:-1]:
        middle = corners[bend][0] + _BEND / 2
        points += [(middle, spans[bend][0]), (middle, spans[bend][1])]
    points += [(to_x + edge.enters, spans[edge.target][0]), (to_x + edge.enters, to_y)]
    return tuple(points)
