"""How counts and durations are written on every page."""


def in_seconds(seconds: float) -> str:
    """Render a duration, such as `0.8 s`, `2 min 05 s` or `1 h 03 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Render `1 task`, `3 tasks`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
