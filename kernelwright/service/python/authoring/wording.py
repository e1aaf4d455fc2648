"""Pieces of lines as error messages quote them: short, whatever the line's length."""

_MOST = 80
_AROUND = 30
"""Characters on both sides of a place in a long line."""


def quoted(text: object) -> str:
    """Quote a text whole, or its beginning where it is long."""
    if not isinstance(text, str) or len(text) <= _MOST:
        shown = repr(text)
        return shown if len(shown) <= 2 * _MOST else f"{shown[:_MOST]}…"
    return f"{text[:_MOST]!r}… ({len(text)} characters)"


def quoted_at(text: str, column: int) -> str:
    """Quote a text whole, or what stands around a column, counted from 1, where it is long."""
    if len(text) <= _MOST:
        return repr(text)
    first, last = max(0, column - 1 - _AROUND), column - 1 + _AROUND
    before, after = "…" if first else "", "…" if last < len(text) else ""
    return repr(f"{before}{text[first:last]}{after}")
