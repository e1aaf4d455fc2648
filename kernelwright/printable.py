"""Text from models, servers and users, as people may read it: nothing steers it or hides in it."""

import re

INVISIBLE = (
    "\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that leave no mark where they stand, as a regular expression lists them.

They are Unicode's Default_Ignorable_Code_Point, such as the marks that turn the direction of
writing, with separators of lines, annotations, C1 controls and halves of characters. Selectors of
an emoji's presentation are none of them: they hide nothing.
"""
_STEERING = re.compile(f"[\x00-\x08\x0b-\x1f{INVISIBLE}]")
"""Also the control characters of ASCII but tab and line feed."""


def printable(text: str) -> str:
    """Return a text whose invisible and control characters are spelled by their numbers."""
    return _STEERING.sub(_spelled, text)


def printable_json(text: str) -> str:
    """Return the same JSON with such characters as JSON spells them."""
    return _STEERING.sub(_spelled_in_json, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _spelled_in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
