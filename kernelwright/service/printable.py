"""Text from models, servers and users, as a terminal may show it: no character that steers it."""

import re

# C0 but tab and line feed, DEL and C1, separators that break lines, marks that turn the direction
# of writing, and halves of characters, which no file takes.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


def printable(text: str) -> str:
    """Return a text whose control characters are spelled by their numbers."""
    return _STEERING.sub(_spelled, text)


def printable_json(text: str) -> str:
    """Return the same JSON with its control characters as JSON spells them."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
