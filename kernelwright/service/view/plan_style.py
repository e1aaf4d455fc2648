"""The style sheet of a drawn plan, for light and for dark pages."""

_HUES = (192, 300, 42, 140, 222, 8)


def _tints(fill: str, line: str) -> str:
    return "".join(
        f".t{place} .region{{fill:hsl({hue},{fill});stroke:hsl({hue},{line})}}"
        f".t{place} .name{{fill:hsl({hue},{line})}}"
        f".t{place} .register{{stroke:hsl({hue},{line})}}"
        for place, hue in enumerate(_HUES)
    )


_SHAPES = """
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.title{font-size:20px;font-weight:600}.name{font-size:13px;font-weight:600}
.figures,.label{font-size:11px}.small{font-size:10.5px}.tiny{font-size:10px}
.middle{text-anchor:middle}
.region{stroke-width:1.4}.mlx,.end,.op{stroke-width:1}
.array,.register{fill:none}.array{stroke-width:2}.register{stroke-width:1}
"""
_LIGHT = """
.page{fill:#fff}text{fill:#1c2127}.quiet,.label,.figures{fill:#5b6570}
.mlx{fill:#f1f3f5;stroke:#b5bdc6}.end{fill:#fff;stroke:#5b6570}.op{fill:#fff;stroke:#c5ccd4}
.array{stroke:#8a95a1}.track{fill:#eef0f2}.bar{fill:#a9b2bc}.bar.plan{fill:hsl(192,75%,38%)}
""" + _tints("70%,95%", "65%,33%")
_DARK = """
.page{fill:#14181d}text{fill:#e4e8ec}.quiet,.label,.figures{fill:#9aa5b1}
.mlx{fill:#20262d;stroke:#4b5661}.end{fill:#14181d;stroke:#9aa5b1}.op{fill:#1b2128;stroke:#46505b}
.array{stroke:#6d7985}.track{fill:#20262d}.bar{fill:#5b6570}.bar.plan{fill:hsl(192,65%,55%)}
""" + _tints("35%,15%", "55%,65%")
STYLE = f"{_SHAPES}{_LIGHT}@media (prefers-color-scheme:dark){{{_DARK}}}"
