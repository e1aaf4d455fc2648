"""Text of models, servers and users inside a report: it is read, and never carried out."""

import re

from markupsafe import Markup

from kernelwright.printable import printable

_INTERVAL = r"\[[\d.]+, [\d.]+\](?![:(\[])"
_ACTIVE = re.compile(
    rf"(?P<kept>{_INTERVAL})"
    r"|(?P<entity><|&(?=#?\w+;))"
    r"|(?P<mark>[\\`*\[\]|]|(?<!\w)_|_(?!\w)|~(?=~)|(?<=~)~)"
)
"""What Markdown would act upon inside a line, and an interval's brackets, which it does not."""
_OPENING = re.compile(r"[#>+=]|-(?!\d)")
"""What opens a heading, a quotation, a list or a rule where a line begins."""
_NUMBER = re.compile(r"\d{1,9}(?=[.)](\s|$))")
"""What numbers an item of a list there."""


class _Span(str):
    """Markdown that is finished."""

    __slots__ = ()


def in_markdown(value: object) -> object:
    """Return a value as Markdown shows it letter for letter, in one line."""
    if isinstance(value, _Span) or not isinstance(value, str):
        return value
    line = " ".join(printable(value).split("\n"))
    number = _NUMBER.match(line)
    if number is not None:
        return f"{number[0]}\\{_ACTIVE.sub(_spelled, line[number.end() :])}"
    opens = "\\" if _OPENING.match(line) else ""
    return opens + _ACTIVE.sub(_spelled, line)


def _spelled(found: re.Match[str]) -> str:
    if found["entity"]:
        return {"<": "&lt;", "&": "&amp;"}[found[0]]
    return found[0] if found["kept"] else f"\\{found[0]}"


def as_code(value: object) -> str:
    """Return a span of code that ends where the value does."""
    line = " ".join(printable(str(value)).split("\n")).replace("|", "\\|")
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return _Span(f"{fence}{room}{line}{room}{fence}")


def in_html(value: object) -> object:
    """Return a value, yet to be escaped, whose invisible and control characters are spelled."""
    if isinstance(value, Markup):
        return Markup(printable(value))
    return printable(value) if isinstance(value, str) else value
