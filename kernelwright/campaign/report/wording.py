"""How money, tokens and durations are written on every page."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from kernelwright.agents.cap_text import in_dollars
from kernelwright.plural import counted

if TYPE_CHECKING:
    from kernelwright.store.browsing import UnusableReplies


_DIGITS = 4
"""Of a dollar, behind the point: less than that is written nowhere."""


def in_seconds(seconds: float) -> str:
    """Render a duration, such as `0.8 s`, `2 min 05 s` or `1 h 03 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def in_local_time(moment: datetime) -> str:
    """Write a moment on this machine's clock, such as `28 Nov 09:05`; an earlier year is told."""
    local = moment.astimezone()
    year = "" if local.year == datetime.now().astimezone().year else f" {local.year}"
    return f"{local.day} {local:%b}{year} {local:%H:%M}"


def in_local_span(began: datetime, ended: datetime | None) -> str:
    """Write from when to when, such as `28 Nov 22:05 – 29 Nov 06:30`; open where it goes on."""
    if ended is None:
        return f"{in_local_time(began)} –"
    is_one_day = began.astimezone().date() == ended.astimezone().date()
    until = f"{ended.astimezone():%H:%M}" if is_one_day else in_local_time(ended)
    return f"{in_local_time(began)} – {until}"


def in_causes(replies: "Iterable[UnusableReplies]") -> str:
    """Say which replies of models were of no use, by cause: `a:b 2 × refused, 1 × empty reply`."""
    causes: dict[str, list[str]] = {}
    for one in replies:
        causes.setdefault(one.model, []).append(f"{one.count} × {one.cause}")
    return "; ".join(f"{model} {', '.join(told)}" for model, told in causes.items())


def in_money(known: float, most: float, unbilled: int) -> str:
    """Write what was paid: what is known, and what more it may be where replies never came whole.

    `unbilled` is how many they are.
    """
    told = in_dollars(known)
    if not round(most - known, _DIGITS):
        return told
    more = in_dollars(most - known)
    return f"{told}, at most {more} more for {counted(unbilled, 'call')} without a whole reply"


def replayed_too(calls: int) -> str:
    """Return what stands behind a number of calls where a replay answered others beside them."""
    return f" ({calls} more replayed)" if calls else ""


def in_tokens(known: int, most: int) -> str:
    """Write how many tokens were paid, in the same way."""
    return f"{known:,}" if known == most else f"{known:,}, at most {most - known:,} more,"


def in_dollar_range(known: float, most: float) -> str:
    """Write the same for a narrow column: `$0.02`, or from what is known to what it is at most."""
    told, bound = in_dollars(known), in_dollars(most)
    return told if told == bound else f"{told}–{bound[1:]}"
