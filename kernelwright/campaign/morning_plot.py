"""Best-so-far as an SVG of our own: steps of each task, readable in light and in dark."""

from collections.abc import Iterator, Sequence
from html import escape

from kernelwright.campaign.morning import TaskMorning

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 190, 20, 44
_MOST_LINES = 8
_LABEL_PX = 16
# Okabe and Ito's colours, which people tell apart whatever they see; black left out.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b39b00", "#7f7f7f")


def best_so_far(tasks: Sequence[TaskMorning], seconds: float) -> str:
    """Draw each task's best over running time, as a multiple of its first right candidate."""
    lines = sorted((t for t in tasks if t.points), key=_final, reverse=True)[:_MOST_LINES]
    if not lines:
        return ""
    last = max([seconds, *(point.seconds for t in lines for point in t.points), 1e-3])
    top = max(1.1, max(map(_final, lines)) * 1.08)
    heights = _apart([_y(_final(task), top) for task in lines])
    body = [*_axes(last, top)]
    for task, colour, height in zip(lines, _COLOURS, heights, strict=False):
        body += _line(task, colour, height, last, top)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="best so far" '
        f'class="plot" xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )


def _final(task: TaskMorning) -> float:
    return task.points[0].rank.value / task.points[-1].rank.value


def _line(task: TaskMorning, colour: str, label_y: float, last: float, top: float) -> Iterator[str]:
    first = task.points[0].rank.value
    path, height = "", 0.0
    for point in task.points:
        x, y = _x(point.seconds, last), _y(first / point.rank.value, top)
        path += f"M{x:.1f},{y:.1f}" if not path else f"H{x:.1f}V{y:.1f}"
        height = y
    yield f'<path d="{path}H{_x(last, last):.1f}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (
        f'<circle cx="{_x(p.seconds, last):.1f}" cy="{_y(first / p.rank.value, top):.1f}" '
        f'r="3" fill="{colour}"/>'
        for p in task.points
    )
    x = _x(last, last)
    yield f'<path d="M{x:.1f},{height:.1f}L{x + 10:.1f},{label_y:.1f}" stroke="{colour}"/>'
    name = task.task.name if len(task.task.name) <= 19 else task.task.name[:18] + "…"
    yield (
        f'<text x="{x + 14:.1f}" y="{label_y + 4:.1f}" fill="{colour}">'
        f"{escape(name)} {_final(task):.2f}×</text>"
    )


def _axes(last: float, top: float) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in _ticks(1.0, top):
        y = _y(value, top)
        yield f'<path class="grid" d="M{_LEFT},{y:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}×</text>'
    unit, size = next(((u, s) for u, s in (("h", 3600), ("min", 60)) if last >= 2 * s), ("s", 1))
    for value in _ticks(0.0, last / size):
        x = _x(value * size, last)
        yield f'<path class="grid" d="M{x:.1f},{bottom}v4"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>'
    middle = (_LEFT + right) / 2
    yield (f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">running time, {unit}</text>')


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 6
    step = next(
        m * 10.0**e for e in range(-4, 8) for m in (1, 2, 5) if m * 10.0**e >= rough * 0.999
    )
    return [round(low + i * step, 6) for i in range(int((high - low) / step + 1e-9) + 1)]


def _apart(heights: Sequence[float]) -> list[float]:
    """Move labels down until none covers another; `heights` grow."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + _LABEL_PX) if placed else height)
    over = max(placed[-1] - (_HEIGHT - _BOTTOM), 0.0)
    return [height - over for height in placed]


def _x(seconds: float, last: float) -> float:
    return _LEFT + (_WIDTH - _RIGHT - _LEFT) * seconds / last


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (value - 1.0) / (top - 1.0)
