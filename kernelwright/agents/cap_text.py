"""How caps are written: what one allows, and that it is reached."""

from kernelwright.plural import counted


def in_dollars(dollars: float) -> str:
    """Write money to the cent, or to a hundredth of one where that says more: `$1.00`, `$0.0042`.

    A sum that is smaller still is written as the smallest.
    """
    least = 0.0001 if dollars > 0 else 0.0
    whole, _, part = f"{max(dollars, least):.4f}".partition(".")
    return f"${whole}.{part[:2]}{part[2:].rstrip('0')}"


def in_time(seconds: float) -> str:
    """Write how long something may take: `9 s`, `1 min 30 s`, `8 h`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{value:g} {unit}" for value, unit in parts if value) or "0 s"


def cap_reached(
    cap: str,
    *,
    of: str = "",
    spent: str = "",
    assumed: str = "",
    unbilled: int = 0,
    next_takes: str = "",
) -> str:
    """Say that a cap is reached, and by what the next call would exceed it where that is not plain.

    Args:
        cap: what it allows, such as `3 calls`.
        of: whose it is, where it is not that of the whole run.
        spent: what was billed of it.
        assumed: what calls without a whole reply count at, whose bill nobody has seen.
        unbilled: how many they are.
        next_takes: what the next call could take.
    """
    whose = f"{of}'s " if of else ""
    reached = f"the {whose}cap of {cap} is reached"
    if not next_takes:
        return reached
    if unbilled:
        spent += (
            f" spent, at most {assumed} more for {counted(unbilled, 'call')} without a whole reply"
        )
    else:
        spent += " spent so far"
    return f"{reached}: {spent}, and the next call could take {next_takes}"
