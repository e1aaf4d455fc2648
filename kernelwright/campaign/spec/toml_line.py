"""On which line of a TOML file a key stands, for sentences about it."""

import re
from collections.abc import Sequence

_HEAD = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")


def line_of(text: str, steps: Sequence[str | int]) -> int | None:
    """Return the line, from 1, of `table`, `key` or `table, number, key`; None if it is not there.

    The table's own line stands for a key that is missing.
    """
    if not steps:
        return None
    table, *rest = steps
    number = rest.pop(0) if rest and isinstance(rest[0], int) else 0
    key = re.compile(rf"\s*[\"']?{re.escape(str(rest[0]))}[\"']?\s*[=.]") if rest else None
    seen, found = -1, None
    for line, words in enumerate(text.splitlines(), 1):
        if head := _HEAD.match(words):
            seen += head[1] == table
            if head[1] == table and seen == number:
                found = line
                if key is None:
                    return line
        elif found is not None and seen == number and key is not None and key.match(words):
            return line
    return found
