"""How money, tokens and durations are written on every page."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.store.browsing import UnusableReplies


def in_seconds(seconds: float) -> str:
    """Render a duration, such as `0.8 s`, `2 min 05 s` or `1 h 03 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def in_causes(replies: "Iterable[UnusableReplies]") -> str:
    """Say which replies of models were of no use, by cause: `a:b 2 × refused, 1 × empty reply`."""
    causes: dict[str, list[str]] = {}
    for one in replies:
        causes.setdefault(one.model, []).append(f"{one.count} × {one.cause}")
    return "; ".join(f"{model} {', '.join(told)}" for model, told in causes.items())


def in_money(known: float, most: float, digits: int = 4) -> str:
    """Write what was paid: what is known, and what it is at most where a reply never came whole."""
    told = f"${known:.{digits}f}"
    bound = f"${most:.{digits}f}"
    return told if told == bound else f"{told}, at most {bound}"


def in_tokens(known: int, most: int) -> str:
    """Write how many tokens were paid, in the same way."""
    return f"{known:,}" if known == most else f"{known:,}, at most {most:,},"


def in_cents(known: float, most: float) -> str:
    """Write the same for a narrow column: `$0.02`, or from what is known to what it is at most."""
    told, bound = f"{known:.2f}", f"{most:.2f}"
    return f"${told}" if told == bound else f"${told}–{bound}"
