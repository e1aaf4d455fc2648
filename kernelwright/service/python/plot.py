"""Bars of MLX's times and the kernels', as an SVG that needs nothing else."""

import textwrap
from collections.abc import Sequence
from html import escape

from kernelwright.campaign import SearchReport, TaskReport
from kernelwright.evaluator.gain import Gain
from kernelwright.service.view.figure import MLX_IS_BEST
from kernelwright.service.view.speedup import speedup_note

_WIDTH = 720
_LEFT = 220
_BAR = 280
_ROW = 44
_HEAD = 40
_LONGEST_NAME = 30
_LONGEST_LINE = 100
_STYLE = """\
text{font:13px system-ui,sans-serif;fill:#24292f}.quiet{fill:#6e7781}
.mlx{fill:#8c959f}.ours{fill:#0969da}.stays{fill:#d0d7de}.page{fill:#ffffff}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#8d96a0}
.mlx{fill:#6e7681}.ours{fill:#4493f8}.stays{fill:#30363d}.page{fill:#0d1117}}"""


def draw_result(report: SearchReport) -> str:
    """Draw both times of each task as bars of one scale per task, the gain beside them."""
    timed = [task for task in report.tasks if task.gain is not None]
    note = textwrap.wrap(_note([task.gain for task in timed if task.gain]), _LONGEST_LINE)
    height = _HEAD + _ROW * max(1, len(timed)) + 18 * len(note) + 12
    names = ", ".join(report.function_names) or "nothing"
    parts = [f'<text x="12" y="24">{escape(names)}: time of a call</text>']
    parts += [_task(task, _HEAD + _ROW * place) for place, task in enumerate(timed)]
    if not timed:
        parts.append(f'<text class="quiet" x="12" y="{_HEAD + 22}">no kernel was right</text>')
    top = height - 18 * len(note)
    parts += [
        f'<text class="quiet" x="12" y="{top + 18 * place + 4}">{escape(line)}</text>'
        for place, line in enumerate(note)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img"><title>{escape(names)}</title>'
        f"<style>{_STYLE}</style>"
        f'<rect class="page" width="100%" height="100%"/>{"".join(parts)}</svg>'
    )


def _task(task: TaskReport, top: int) -> str:
    gain = task.gain
    assert gain is not None
    ours = 1 / gain.ratio if gain.ratio else 1.0
    longest = max(1.0, ours)
    style = "ours" if gain.beats_mlx else "stays"
    name = task.name if len(task.name) <= _LONGEST_NAME else f"{task.name[: _LONGEST_NAME - 1]}…"
    told = gain.with_interval if gain.beats_mlx else MLX_IS_BEST
    return (
        f'<text x="12" y="{top + 24}">{escape(name)}<title>{escape(task.name)}</title></text>'
        + _bar(top + 6, "mlx", 1 / longest, f"MLX {gain.mlx_time}")
        + _bar(top + 22, style, ours / longest, f"kernel {gain.kernel_time}")
        + f'<text x="{_LEFT + _BAR + 110}" y="{top + 24}">{escape(told)}</text>'
    )


def _bar(y: int, style: str, share: float, words: str) -> str:
    width = max(1.0, _BAR * share)
    return (
        f'<rect class="{style}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="12" rx="2"/>'
        f'<text class="quiet" x="{_LEFT + width + 6:.1f}" y="{y + 11}">{escape(words)}</text>'
    )


def _note(gains: Sequence[Gain]) -> str:
    return f"speedup {speedup_note(gains)}" if gains else ""
