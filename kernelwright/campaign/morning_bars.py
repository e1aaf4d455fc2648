"""What each champion gains over MLX, as bars with their intervals."""

from collections.abc import Iterator, Sequence
from html import escape

from kernelwright.campaign.gain import Gain
from kernelwright.campaign.morning import TaskMorning

_WIDTH, _ROW = 760, 34
_NAMES, _FIGURES = 200, 230
_LONGEST_NAME = 27
_MOST_BARS = 16


def gain_bars(tasks: Sequence[TaskMorning]) -> str:
    """Draw the gains, the greatest first; the line is MLX at its best."""
    gained = [(task, task.gain) for task in tasks if task.gain is not None]
    rows = sorted(gained, key=lambda row: -row[1].ratio)[:_MOST_BARS]
    if not rows:
        return ""
    most = max(1.2, *(gain.upper or gain.ratio for _, gain in rows))
    height = _ROW * len(rows) + 24
    body = [part for i, (task, gain) in enumerate(rows) for part in _bar(i, task, gain, most)]
    one = _x(1.0, most)
    body.append(f'<path class="one" d="M{one:.1f},4V{height - 20}"/>')
    body.append(f'<text x="{one:.1f}" y="{height - 6}" text-anchor="middle">MLX</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="gains over MLX" '
        f'class="plot" xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )


def _bar(place: int, task: TaskMorning, gain: Gain, most: float) -> Iterator[str]:
    top, middle = _ROW * place + 8, _ROW * place + _ROW / 2
    name = task.task.name
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "…"
    style = "gain" if gain.is_worthwhile else "even"
    width = _x(gain.ratio, most) - _NAMES
    yield f'<text class="name" x="{_NAMES - 10}" y="{middle + 4}" text-anchor="end">'
    yield f"{escape(name)}</text>"
    yield (
        f'<rect class="{style}" x="{_NAMES}" y="{top}" width="{width:.1f}" '
        f'height="{_ROW - 16}" rx="3"/>'
    )
    end = gain.ratio
    if gain.lower is not None and gain.upper is not None:
        end = max(end, gain.upper)
        yield (
            f'<path class="whisker" d="M{_x(gain.lower, most):.1f},{middle}'
            f'H{_x(gain.upper, most):.1f}"/>'
        )
    x = _x(max(end, 1.0), most) + 8
    yield f'<text x="{x:.1f}" y="{middle + 4}"><tspan class="name">{gain.ratio:.2f}×</tspan>'
    yield f" over {escape(gain.baseline)}, {gain.kind}</text>"


def _x(ratio: float, most: float) -> float:
    return _NAMES + (_WIDTH - _NAMES - _FIGURES) * ratio / most
