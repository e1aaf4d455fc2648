"""Best-so-far as SVGs of our own: steps of each task over time or money, light and dark."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from kernelwright.campaign.report.campaign_report import Point, TaskResult

_WIDTH, _HEIGHT = 480, 280
"""Small, so that its text can be read where a phone makes it smaller."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 20, 44
_MOST_LINES = 8
_HEADROOM = 1.08
_WIDE = 3.0
"""Times that the greatest multiple is the least from which logarithms show more."""
# Okabe and Ito's colours, which people tell apart whatever they see; black left out.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#9467bd", "#7f7f7f")


@dataclass(frozen=True)
class _Axis:
    """What runs to the right."""

    of: Callable[[Point], float]
    last: float
    label: str
    size: float = 1.0
    """How much of it one unit of the label is."""
    before: str = ""
    """What stands before a figure, such as `$`."""

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _RIGHT - _LEFT) * min(value / self.last, 1.0)


@dataclass(frozen=True)
class _Scale:
    """What runs upwards: multiples, from `low` to `top`; by their logarithms where they differ."""

    low: float
    top: float

    def y(self, value: float) -> float:
        share = (self._of(value) - self._of(self.low)) / (self._of(self.top) - self._of(self.low))
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * share

    @property
    def ticks(self) -> list[float]:
        """Round figures, and always 1."""
        if self._is_wide:
            even = [m * 2.0**e for e in range(-8, 12) for m in (1.0, 1.5)]
            ticks = [value for value in even if self.low <= value <= self.top]
        else:
            ticks = _ticks(self.low, self.top)
        return ticks if 1.0 in ticks or not self.low <= 1 <= self.top else [*ticks, 1.0]

    @property
    def _is_wide(self) -> bool:
        return self.top > _WIDE * self.low

    def _of(self, value: float) -> float:
        return math.log2(value) if self._is_wide else value


def best_so_far(tasks: Sequence[TaskResult], seconds: float) -> str:
    """Draw each task's best over running time."""
    last = max([seconds, *(p.seconds for t in tasks for p in t.points), 1e-3])
    units = (("h", 3600.0), ("min", 60.0))
    unit, size = next(((u, s) for u, s in units if last >= 2 * s), ("s", 1.0))
    return _drawn(tasks, _Axis(lambda p: p.seconds, last, f"running time, {unit}", size))


def best_for_money(tasks: Sequence[TaskResult], dollars: float) -> str:
    """Draw each task's best over what models were paid; nothing where none was."""
    if not dollars:
        return ""
    return _drawn(tasks, _Axis(lambda p: p.dollars, dollars, "paid to models", before="$"))


def is_against_mlx(tasks: Sequence[TaskResult]) -> bool:
    """Say whether lines are multiples of MLX's best, or of a task's own first right candidate."""
    return any(task.gain for task in tasks)


def _drawn(tasks: Sequence[TaskResult], axis: _Axis) -> str:
    chosen = [t for t in tasks if t.points and (t.gain or not is_against_mlx(tasks))]
    lines = chosen[:_MOST_LINES]
    if not lines:
        return ""
    values = [value for task in lines for value in _multiples(task)]
    low, high = min(1.0, *values), max(1.1, *values)
    scale = _Scale(low * (2 - _HEADROOM) if low < 1 else low, high * _HEADROOM)
    body = [*_axes(axis, scale)]
    for task, colour in zip(lines, _COLOURS, strict=False):
        body += _line(task, colour, axis, scale)
    drawn = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="best so far, '
        f'{axis.label}" class="plot" xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )
    return f"<figure>{drawn}{_legend(lines)}</figure>"


def _legend(lines: Sequence[TaskResult]) -> str:
    """List the lines in the tasks' order, their names in full."""
    items = "".join(
        f'<li><i style="background:{colour}"></i>{escape(task.task.name)} '
        f"<b>{_final_words(task)}</b></li>"
        for task, colour in zip(lines, _COLOURS, strict=False)
    )
    return f'<ul class="legend">{items}</ul>'


def _final_words(task: TaskResult) -> str:
    """Return a champion's gain as every page shows it, else the last multiple."""
    return task.gain.times if task.gain else f"{_multiples(task)[-1]:.2f}×"


def _multiples(task: TaskResult) -> list[float]:
    """Return each point as a multiple: of MLX's best where a champion tells how far that is."""
    if task.gain is not None and task.champion is not None:
        reference = task.gain.ratio * task.champion.rank.value
    else:
        reference = task.points[0].rank.value
    return [reference / point.rank.value for point in task.points]


def _line(task: TaskResult, colour: str, axis: _Axis, scale: _Scale) -> Iterator[str]:
    places = [
        (axis.x(axis.of(point)), scale.y(multiple))
        for point, multiple in zip(task.points, _multiples(task), strict=True)
    ]
    path = "".join(
        f"H{x:.1f}V{y:.1f}" if i else f"M{x:.1f},{y:.1f}" for i, (x, y) in enumerate(places)
    )
    end = axis.x(axis.last)
    yield f'<path d="{path}H{end:.1f}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)


def _axes(axis: _Axis, scale: _Scale) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in scale.ticks:
        y = scale.y(value)
        style = "one" if value == 1.0 else "grid"
        yield f'<path class="{style}" d="M{_LEFT},{y:.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}×</text>'
    for value in _ticks(0.0, axis.last / axis.size):
        x = axis.x(value * axis.size)
        yield f'<path class="grid" d="M{x:.1f},{bottom}v4"/>'
        words = f"{axis.before}{value:g}"
        if axis.before and value < 1:
            words = f"{axis.before}{value:.2f}"
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{words}</text>'
    middle = (_LEFT + right) / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{axis.label}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Return round figures from `low` to `high`."""
    rough = (high - low) / 6
    step = next(
        m * 10.0**e for e in range(-7, 8) for m in (1, 2, 5) if m * 10.0**e >= rough * 0.999
    )
    first = -int(-low / step) if low < 0 else int(low / step + 0.999999)
    count = int((high - first * step) / step + 1e-9) + 1
    return [round((first + i) * step, 7) for i in range(count)]
