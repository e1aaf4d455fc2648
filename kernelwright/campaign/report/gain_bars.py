"""What each champion gains over MLX, as bars of plain HTML that fit any screen."""

from collections.abc import Iterator, Sequence
from html import escape

from kernelwright.campaign.report.campaign_report import TaskResult
from kernelwright.evaluator.gain import Gain

_MOST_BARS = 16
_LEAST_SCALE = 1.2
"""The ratio at the bars' full width where nothing gains more."""


def gain_bars(tasks: Sequence[TaskResult]) -> str:
    """Draw the gains in the tasks' order; the line is MLX at its best. Names are never cut."""
    rows = [(task, task.gain) for task in tasks if task.gain is not None][:_MOST_BARS]
    if not rows:
        return ""
    most = max(_LEAST_SCALE, *(gain.upper or gain.ratio for _, gain in rows))
    body = [part for task, gain in rows for part in _bar(task, gain, most)]
    return f'<div class="bars" role="img" aria-label="gains over MLX">{"".join(body)}</div>'


def _bar(task: TaskResult, gain: Gain, most: float) -> Iterator[str]:
    style = "gain" if gain.beats_mlx else "even"
    yield f'<div class="name">{escape(task.task.name)}</div>'
    yield f'<div class="track"><i class="{style}" style="width:{_share(gain.ratio, most)}"></i>'
    if gain.lower is not None and gain.upper is not None and gain.lower < gain.upper:
        width = _share(gain.upper - gain.lower, most)
        left = _share(gain.lower, most)
        yield f'<i class="whisker" style="left:{left};width:{width}"></i>'
    yield f'<i class="one" style="left:{_share(1.0, most)}"></i></div>'
    yield f'<div class="ratio"><b>{gain.times}</b> over {escape(gain.baseline)}</div>'


def _share(ratio: float, most: float) -> str:
    return f"{100 * ratio / most:.1f}%"
