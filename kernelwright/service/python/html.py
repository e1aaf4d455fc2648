"""What a notebook shows: small tables and text as HTML that suits light and dark pages."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from rich.console import Console, RenderableType
from rich.text import Text

from kernelwright.service.console import THEME

_WIDTH = 110
_FORMAT = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:1.35;'
    "font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace\">{code}</pre>"
)
GOOD = "#1a7f37"
BAD = "#cf222e"
QUIET = "#808080"


@dataclass(frozen=True)
class Cell:
    """A cell's text and how it looks."""

    text: str
    color: str = ""
    is_number: bool = False


def page(write: Callable[[Console], None], width: int = _WIDTH) -> Text:
    """Return what a view prints to a console of `width` columns."""
    console = Console(
        file=io.StringIO(),
        width=width,
        theme=THEME,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=True,
        color_system="standard",
        force_jupyter=False,
        no_color=False,
    )
    write(console)
    assert isinstance(console.file, io.StringIO)
    return Text.from_ansi(console.file.getvalue().rstrip("\n"), no_wrap=True)


def as_text(renderable: RenderableType, width: int = _WIDTH) -> str:
    """Write what a terminal would show, without colours."""
    # A notebook's kernel asks every program for colours, by FORCE_COLOR.
    console = Console(
        file=io.StringIO(),
        width=width,
        theme=THEME,
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,
        force_terminal=False,
        color_system=None,
        no_color=True,
    )
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")


def as_html(renderable: RenderableType, width: int = _WIDTH) -> str:
    """Write what a terminal would show as HTML; plain text has the page's own colour."""
    console = Console(
        file=io.StringIO(),
        width=width,
        theme=THEME,
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,
        record=True,
    )
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format=_FORMAT)


def table_html(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Write a table; every text is escaped."""
    numbers = [bool(rows) and rows[0][place].is_number for place in range(len(heads))]
    head = "".join(_head(h, is_number=n) for h, n in zip(heads, numbers, strict=True))
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        '<div style="overflow-x:auto"><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def line_html(text: str, color: str = "") -> str:
    """Write a line of text."""
    style = f' style="color:{color}"' if color else ""
    return f"<div{style}>{escape(text)}</div>"


def picture_html(svg: str, words: str) -> str:
    """Write a drawing as an image: its styles are its own, and not the notebook's."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{escape(words, quote=True)}" style="max-width:100%" '
        f'src="data:image/svg+xml;base64,{data}"/>'
    )


def _head(text: str, *, is_number: bool) -> str:
    align = "right" if is_number else "left"
    return f'<th scope="col" style="text-align:{align};padding:2px 10px">{escape(text)}</th>'


def _cell(cell: Cell) -> str:
    style = f"text-align:{'right' if cell.is_number else 'left'};padding:2px 10px"
    style += f";color:{cell.color}" if cell.color else ""
    return f'<td style="{style}">{escape(cell.text)}</td>'
