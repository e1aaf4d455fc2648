"""Where a reader of a campaign's log is: the last line of each of its runs, as one word."""

import re
from collections.abc import Mapping

from kernelwright.errors import InputError

_DIGITS = 16
"""Of a run's id; enough to tell the runs of one campaign apart."""
_PART = re.compile(rf"([0-9a-f]{{{_DIGITS}}})\.(\d{{1,18}})")


def cursor_of(last: Mapping[str, int]) -> str:
    """Write the last line's id of each run, such as `0123456789abcdef.17`."""
    return "-".join(f"{run[:_DIGITS]}.{line}" for run, line in sorted(last.items()) if line)


def read_cursor(text: str) -> dict[str, int]:
    """Read what `cursor_of` wrote, by the first digits of the runs' ids.

    Raises:
        InputError: it is none.
    """
    found: dict[str, int] = {}
    for part in filter(None, text.split("-")):
        if not (match := _PART.fullmatch(part)):
            raise InputError(
                f"expected a cursor that this server gave, found {text[:80]!r}; leave it out to "
                "begin with the first event."
            )
        found[match[1]] = int(match[2])
    return found


def line_of(cursor: Mapping[str, int], run_id: str) -> int:
    """Return the last line of a run that the reader has; 0 for a run that is new to it."""
    return cursor.get(run_id[:_DIGITS], 0)
