"""Figures for people: bytes, times, ratios and short ids."""

from kernelwright.campaign.report.wording import in_money
from kernelwright.evaluator.gain import in_microseconds, three_digits
from kernelwright.store import Rank
from kernelwright.store.model_call import Spend

SHORT_ID = 8
MLX_IS_BEST = "MLX is best here"


def short(id_: str) -> str:
    """Return enough digits of an id to type."""
    return id_[:SHORT_ID]


def in_bytes(count: float) -> str:
    """Render bytes with three digits, such as `1.05 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{three_digits(count)} {unit}"


def ranked(rank: Rank | None) -> str:
    """Render what a candidate is ranked by; a prediction is marked with `~`."""
    if rank is None:
        return "–"
    if rank.kind == "traffic":
        return in_bytes(rank.value)
    time = in_microseconds(rank.value)
    return time if rank.kind == "measured" else f"~{time}"


def in_dollars(spent: Spend | None) -> str:
    """Write what models were paid; a dash where none was asked."""
    if spent is None:
        return "–"
    return in_money(spent.known_dollars, spent.dollars, spent.unbilled_calls)
