"""A plan as an SVG of its own: the graph in layers, each kernel a tinted box around its ops."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape

from kernelwright.campaign.planning.launch_graph import Flow, Unit
from kernelwright.campaign.planning.plan_summary import PlanOutline, RegionOutline
from kernelwright.evaluator.gain import Gain
from kernelwright.ir.graph import ValueId
from kernelwright.metal.perf import caveat_of
from kernelwright.plural import counted
from kernelwright.service.view.figure import MLX_IS_BEST, in_bytes
from kernelwright.service.view.layered import Box, Edge, Key, Layout, Point, arrange
from kernelwright.service.view.plan import tints
from kernelwright.service.view.plan_style import STYLE

_MARGIN = 28.0
_HEAD = 132.0
"""Room for the title and the bars."""
_FOOT = 40.0
_LEAST_WIDTH = 640.0
_BAR = 220.0
_OP = 22.0
"""Height of an op in a region."""
_PAD = 14.0
_TITLE = 46.0
"""Room for a region's name and figures."""
_LINE = 15.0


@dataclass(frozen=True)
class _Inside:
    """A region's ops, placed in their box."""

    outline: RegionOutline
    layout: Layout
    enters: dict[ValueId, float]
    leaves: dict[ValueId, float]
    width: float
    height: float
    shift: float
    """From the box's left side to the ops'."""


def draw_plan(flow: Flow, plan: PlanOutline) -> str:
    """Draw a plan; the text is a whole SVG file that follows the reader's colour scheme."""
    drawing = _Drawing(flow, plan)
    width = max(drawing.layout.width, _LEAST_WIDTH) + 2 * _MARGIN
    height = _HEAD + drawing.layout.height + _FOOT + 2 * _MARGIN
    left = (width - drawing.layout.width) / 2
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" aria-labelledby="title about">'
        ),
        f'<title id="title">The plan for {escape(plan.function)}</title>',
        f'<desc id="about">{escape(_about(plan))}</desc>',
        f"<style>{STYLE}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        *_head(plan),
        f'<g transform="translate({left:.1f} {_HEAD + _MARGIN:.1f})">',
        *drawing.lines(),
        "</g>",
        _legend(width, height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


class _Drawing:
    """The graph itself: units, inputs and outputs, and the arrays between them."""

    def __init__(self, flow: Flow, plan: PlanOutline) -> None:
        self._flow = flow
        self._graph = flow.graph
        self._tint = tints(plan)
        self._reason = {left.op: left.reason for left in plan.left}
        outlines = {region.label: region for region in plan.regions}
        self._units = dict(enumerate(flow.units))
        self._place = {unit.nodes: place for place, unit in self._units.items()}
        self._returned = [flow.origin(value) for value in self._graph.outputs]
        self._inside = {
            place: self._placed(unit, outlines[unit.label])
            for place, unit in self._units.items()
            if unit.region
        }
        names = zip(self._graph.inputs, self._graph.input_names(), strict=True)
        self._pills: dict[Key, str] = {
            ("input", v): f"{name}  {self._graph.types[v]}" for v, name in names
        }
        self._pills.update(
            {
                ("output", place): f"return  {self._graph.types[value]}"
                for place, value in enumerate(self._graph.outputs)
            }
        )
        self._boxes = self._sizes()
        self._edges = list(self._arrays())
        self.layout = arrange(self._boxes, self._edges, gap=26, drop=36)

    def lines(self) -> Iterator[str]:
        """Yield the SVG elements, arrays below boxes."""
        yield from (_path(route, "array") for route in self.layout.routes)
        for key, text in self._pills.items():
            yield from self._pill(key, text)
        for place, unit in self._units.items():
            if inside := self._inside.get(place):
                yield from self._region(place, unit, inside)
            else:
                yield from self._mlx(place, unit)

    def _sizes(self) -> dict[Key, Box]:
        boxes = {
            key: Box(_mono(text, 11) + 22, 24, is_last=key[0] == "output")
            for key, text in self._pills.items()
        }
        for place, unit in self._units.items():
            if inside := self._inside.get(place):
                boxes["unit", place] = Box(inside.width, inside.height)
            else:
                texts = self._mlx_texts(unit)
                widest = max(_mono(texts[0], 12), *(_mono(t, 10.5) for t in texts[1:]))
                boxes["unit", place] = Box(widest + 24, 12 + _LINE * len(texts))
        return boxes

    def _arrays(self) -> Iterator[Edge]:
        """Yield a line for each array that a unit reads from memory, and for each result."""
        for place, unit in self._units.items():
            inside = self._inside.get(place)
            middle = self._boxes["unit", place].width / 2
            for value in self._from_outside(unit):
                enters = inside.enters[value] if inside else middle
                yield from self._array(value, ("unit", place), enters)
        for place, value in enumerate(self._returned):
            key = ("output", place)
            yield from self._array(value, key, self._boxes[key].width / 2)

    def _array(self, value: ValueId, target: Key, enters: float) -> Iterator[Edge]:
        maker = self._graph.producer_of.get(value)
        if maker is not None:
            place = self._place[self._flow.unit_of[maker].nodes]
            inside = self._inside.get(place)
            middle = self._boxes["unit", place].width / 2
            leaves = inside.leaves[value] if inside else middle
            yield Edge(("unit", place), target, leaves, enters)
        elif ("input", value) in self._boxes:
            source = ("input", value)
            yield Edge(source, target, self._boxes[source].width / 2, enters)

    def _from_outside(self, unit: Unit) -> list[ValueId]:
        """List what a unit reads from memory; captured constants are not drawn."""
        own = {v for i in unit.nodes for v in self._graph.nodes[i].outputs}
        read = dict.fromkeys(v for i in unit.nodes for v in self._flow.reads(i))
        return [v for v in read if v not in own and v not in self._graph.constant_of]

    def _placed(self, unit: Unit, outline: RegionOutline) -> _Inside:
        """Place a region's ops between the arrays that it reads and those that it writes."""
        graph = self._graph
        boxes: dict[Key, Box] = {
            ("op", i): Box(_mono(graph.nodes[i].op, 12) + 18, _OP) for i in unit.nodes
        }
        boxes.update({("in", v): Box(10, 0, is_first=True) for v in self._from_outside(unit)})
        boxes.update(
            {
                ("out", v): Box(_mono(self._stored(v), 10) + 8, 16, is_last=True)
                for v in self._written(unit)
            }
        )
        edges = [
            Edge(source, ("op", i), boxes[source].width / 2, boxes["op", i].width / 2)
            for i in unit.nodes
            for source in self._inner_sources(boxes, i)
        ]
        for v in self._written(unit):
            op: Key = ("op", graph.producer_of[v])
            edges.append(Edge(op, ("out", v), boxes[op].width / 2, boxes["out", v].width / 2))
        layout = arrange(boxes, edges, gap=12, drop=16)
        titles = (_sans(_title(outline), 14.5), _sans(_figures(outline), 11))
        width = max(layout.width, *titles) + 2 * _PAD
        shift = (width - layout.width) / 2
        middles = {key: shift + x + boxes[key].width / 2 for key, (x, _) in layout.corners.items()}
        return _Inside(
            outline,
            layout,
            enters={v: x for (kind, v), x in middles.items() if kind == "in"},
            leaves={v: x for (kind, v), x in middles.items() if kind == "out"},
            width=width,
            height=_TITLE + layout.height + 6,
            shift=shift,
        )

    def _inner_sources(self, boxes: dict[Key, Box], index: int) -> list[Key]:
        made = self._graph.producer_of
        sources: list[Key] = []
        for value in self._flow.reads(index):
            for key in (("in", value), ("op", made.get(value, -1))):
                if key in boxes and key not in sources:
                    sources.append(key)
        return sources

    def _written(self, unit: Unit) -> list[ValueId]:
        """List what a unit writes to memory, as its ops make it."""
        inside = set(unit.nodes)
        made = (v for i in unit.nodes for v in self._graph.nodes[i].outputs)
        readers = self._readers
        return [v for v in made if v in self._returned or not inside >= readers.get(v, inside)]

    @cached_property
    def _readers(self) -> Mapping[ValueId, set[int]]:
        readers: dict[ValueId, set[int]] = {}
        for i in self._flow.unit_of:
            for value in self._flow.reads(i):
                readers.setdefault(value, set()).add(i)
        return readers

    def _stored(self, value: ValueId) -> str:
        return str(self._graph.types[value])

    def _pill(self, key: Key, text: str) -> Iterator[str]:
        (x, y), box = self.layout.corners[key], self._boxes[key]
        yield _rect(x, y, box.width, box.height, "end", radius=12)
        yield _text(x + box.width / 2, y + 16, text, "mono small middle")

    def _mlx(self, place: int, unit: Unit) -> Iterator[str]:
        (x, y), box = self.layout.corners["unit", place], self._boxes["unit", place]
        reason = self._reason.get(self._graph.nodes[unit.nodes[-1]].op, "it is left to MLX")
        yield f"<g><title>{escape(f'{unit.label}: {reason}')}</title>"
        yield _rect(x, y, box.width, box.height, "mlx", radius=5)
        for line, text in enumerate(self._mlx_texts(unit)):
            style = "mono middle" if line == 0 else "mono small quiet middle"
            yield _text(x + box.width / 2, y + 18 + _LINE * line, text, style)
        yield "</g>"

    def _mlx_texts(self, unit: Unit) -> list[str]:
        graph = self._graph
        last = graph.nodes[unit.nodes[-1]].outputs[0]
        weights = (v for i in unit.nodes for v in self._flow.reads(i) if v in graph.constant_of)
        ops = " + ".join(dict.fromkeys(graph.nodes[i].op for i in unit.nodes))
        return [
            f"{unit.label} {ops}",
            *(f"weight {graph.types[v]}" for v in weights if graph.types[v].size > 1),
            str(graph.types[last]),
        ]

    def _region(self, place: int, unit: Unit, inside: _Inside) -> Iterator[str]:
        (left, top), tint = self.layout.corners["unit", place], f"t{self._tint[unit.label]}"
        yield f'<g class="{tint}" transform="translate({left:.1f} {top:.1f})">'
        yield _rect(0, 0, inside.width, inside.height, "region", radius=9)
        yield from (_path(((x, 0), (x, 7)), "register") for x in inside.enters.values())
        yield _text(_PAD, 20, _title(inside.outline), "name")
        yield _text(_PAD, 36, _figures(inside.outline), "figures")
        yield f'<g transform="translate({inside.shift:.1f} {_TITLE:.1f})">'
        yield from (_path(route, "register") for route in inside.layout.routes)
        for (kind, number), (x, y) in inside.layout.corners.items():
            if kind == "op":
                yield from self._op(number, x, y)
            elif kind == "out":
                text = self._stored(number)
                yield _text(x + _mono(text, 10) / 2 + 4, y + 12, text, "mono tiny middle")
        yield "</g></g>"

    def _op(self, index: int, left: float, top: float) -> Iterator[str]:
        node = self._graph.nodes[index]
        width = _mono(node.op, 12) + 18
        made = ", ".join(str(self._graph.types[v]) for v in node.outputs)
        yield f"<g><title>{escape(f'{node.op}  {made}')}</title>"
        yield _rect(left, top, width, _OP, "op", radius=5)
        yield _text(left + width / 2, top + 15, node.op, "mono middle") + "</g>"


def _title(region: RegionOutline) -> str:
    return f"{region.label}  {region.name}"


def _figures(region: RegionOutline) -> str:
    launches = f"{region.mlx.launches} launches → 1" if region.mlx.launches > 1 else "1 launch"
    moved = f"{in_bytes(region.mlx.nbytes)} → {in_bytes(region.planned.nbytes)}"
    return f"{launches} · {moved} · {_speedup(region.gain, region.limit)}"


def _speedup(gain: Gain | None, limit: Gain | None) -> str:
    """Return what a champion gains, else what a perfect kernel would at most."""
    if gain is not None:
        return gain.times if gain.beats_mlx else MLX_IS_BEST
    return f"≤ {limit.ratio:.2f}×" if limit else ""


def _about(plan: PlanOutline) -> str:
    traffic = plan.traffic
    caveat = caveat_of([plan.limit.chip]) if plan.limit else ""
    rests = f" Speedups are predicted by {caveat}." if caveat else ""
    return (
        f"{counted(plan.nodes, 'node')} in {counted(len(plan.regions), 'kernel')}; "
        f"{in_bytes(traffic.eager)} and {traffic.eager_launches} launches eager, "
        f"{in_bytes(traffic.planned)} and {traffic.planned_launches} launches planned."
        f"{rests}"
    )


def _head(plan: PlanOutline) -> Iterator[str]:
    """Yield the title and a bar for each way to run the function."""
    traffic = plan.traffic
    yield _text(_MARGIN, 44, plan.function, "title")
    yield _text(_MARGIN, 64, plan.inputs, "mono small quiet")
    rows = (
        ("eager", traffic.eager, traffic.eager_launches),
        _mlx_row(plan),
        ("plan", traffic.planned, traffic.planned_launches),
    )
    for line, (name, nbytes, launches) in enumerate(rows):
        y = 92.0 + 20 * line
        share = nbytes / max(traffic.eager, 1)
        yield _text(_MARGIN, y, name, "label")
        yield _rect(_MARGIN + 84, y - 9, _BAR, 10, "track", radius=2)
        yield _rect(_MARGIN + 84, y - 9, _BAR * share, 10, f"bar {name[:4]}", radius=2)
        speedup = _speedup(plan.gain, plan.limit) if name == "plan" else ""
        over = f"  {speedup} over MLX's best" if speedup and speedup != MLX_IS_BEST else ""
        figures = f"{in_bytes(nbytes)}, {counted(launches, 'launch', 'launches')}{over}"
        yield _text(_MARGIN + 96 + _BAR, y, figures, "label")


def _mlx_row(plan: PlanOutline) -> tuple[str, int, int]:
    """Return MLX at its best: with its own kernels where there are some."""
    traffic = plan.traffic
    if traffic.fast < traffic.compiled:
        return ("mx.fast", traffic.fast, plan.work.fast.launches)
    return ("mx.compile", traffic.compiled, traffic.compiled_launches)


def _legend(width: float, height: float) -> str:
    words = (
        "tinted box: one kernel · thick line: an array in memory · thin line: a value on chip · "
        "grey box: left to MLX"
    )
    return _text(width / 2, height - 20, words, "label middle")


def _path(route: tuple[Point, ...], style: str) -> str:
    """Draw straight lines within pairs of points, and bends between pairs."""
    (x, y), *rest = route
    steps = [f"M{x:.1f} {y:.1f}"]
    for place, (to_x, to_y) in enumerate(rest):
        if place % 2 == 0 or abs(to_x - x) < 0.5:
            steps.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            steps.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return f'<path class="{style}" d="{"".join(steps)}"/>'


def _rect(x: float, y: float, width: float, height: float, style: str, *, radius: float) -> str:
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius:.0f}"/>'
    )


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _mono(text: str, size: float) -> float:
    """Estimate the width of text in a monospaced font, in pixels."""
    return 0.61 * size * len(text)


def _sans(text: str, size: float) -> float:
    return 0.58 * size * len(text)
