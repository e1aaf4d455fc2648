"""Whether Kernelwright's own files are still those that this process began with.

A worker is a new process and reads them anew: one that an upgrade changed would look for other
headers, understand other requests, and blame the candidate for it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kernelwright.errors import OutdatedError

_FOLDER = Path(__file__).parents[2]
_CODE = (".py", ".h", ".cpp")
Stamps = dict[str, tuple[int, int]]
"""When each file was changed, in nanoseconds, and its bytes, by its path."""


def check_own_code() -> None:
    """Refuse to start a worker beside other code than this process runs.

    Raises:
        OutdatedError: a file of Kernelwright's was changed, added or removed since this began.
    """
    if dict(_stamps(_FOLDER)) != _AT_START:
        raise OutdatedError(
            "Kernelwright was changed or upgraded while it ran; start the program again."
        )


def _stamps(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _stamps(Path(entry.path))
            elif entry.name.endswith(_CODE):
                found = entry.stat()
                yield entry.path, (found.st_mtime_ns, found.st_size)


_AT_START: Stamps = dict(_stamps(_FOLDER))
