"""The yardstick as an SVG: how many times the floor each variant takes, level by level."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from kernelwright.campaign.agent_bench.score import BenchReport, LevelScore
from kernelwright.campaign.agent_bench.variant import Variant

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 28, 64
_OPENING = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
    'font-family="sans-serif" font-size="11" role="img">'
)
# Okabe and Ito's colours, which people tell apart whatever they see.
_COLOURS = {
    Variant.OFFLINE: "#7f7f7f",
    Variant.FULL: "#0072b2",
    Variant.NO_TOOLS: "#d55e00",
    Variant.NO_THINKING: "#009e73",
    Variant.NO_ARCHIVE: "#cc79a7",
    Variant.ONE_ROLE: "#e69f00",
}


def bench_plot(report: BenchReport) -> str:
    """Draw a report; a bar ends at 1 where programs are as fast as any right kernel."""
    table = report.table
    levels = list(dict.fromkeys(line.level for line in table if line.level != "all")) or ["all"]
    lines = [line for line in table if line.level in levels and line.times_floor]
    top = max((line.times_floor or 1.0 for line in lines), default=1.0) * 1.15
    return "\n".join(
        (
            _OPENING,
            "<title>Times the floor that the best programs take, by level</title>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            *_axis(top),
            *_bars(lines, levels, top),
            *_legend(list(dict.fromkeys(line.variant for line in lines))),
            "</svg>\n",
        )
    )


def _y(value: float, top: float) -> float:
    share = math.log(max(value, 1.0)) / math.log(max(top, 1.01))
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * share


def _axis(top: float) -> Iterator[str]:
    yield f'<text x="4" y="{_TOP - 12}">times the floor</text>'
    for tick in (1, 1.5, 2, 3, 5, 10, 20, 50, 100):
        if tick <= top:
            y = _y(tick, top)
            yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'


def _bars(lines: Sequence[LevelScore], levels: Sequence[str], top: float) -> Iterator[str]:
    group = (_WIDTH - _RIGHT - _LEFT) / len(levels)
    variants = list(dict.fromkeys(line.variant for line in lines))
    width = group * 0.8 / max(len(variants), 1)
    base = _y(1.0, top)
    for line in lines:
        x = _LEFT + levels.index(line.level) * group + group * 0.1
        x += variants.index(line.variant) * width
        y = _y(line.times_floor or 1.0, top)
        said = f"{line.variant.value}, {line.level}: {line.times_floor:.2f} times the floor"
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.9:.1f}" '
            f'height="{max(base - y, 1):.1f}" fill="{_COLOURS[line.variant]}">'
            f"<title>{escape(said)}</title></rect>"
        )
        yield (
            f'<text x="{x + width * 0.45:.1f}" y="{y - 4:.1f}" text-anchor="middle" font-size="9">'
            f"{line.solved}/{line.tasks}</text>"
        )
    for place, level in enumerate(levels):
        x, y = _LEFT + (place + 0.5) * group, base + 16
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(level)}</text>'


def _legend(variants: Sequence[Variant]) -> Iterator[str]:
    for place, variant in enumerate(variants):
        x = _LEFT + place * 96
        y = _HEIGHT - 18
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{_COLOURS[variant]}"/>'
        yield f'<text x="{x + 14}" y="{y}">{variant.value}</text>'
    yield f'<text x="{_LEFT}" y="{_HEIGHT - 4}" font-size="9">above a bar: tasks solved</text>'
