"""Temporary folders that end with their program: at its exit, or at the next one's if it is killed.

The program holds a lock on a file in each of its folders, which the system lets go of when it dies,
however it dies. Whoever makes a folder first removes those of the dead.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "kernelwright-"
_LOCK = ".owner"


class ScratchFolder:
    """A folder of this process in the temporary directory, until `remove` or its exit."""

    def __init__(self) -> None:
        place = tempfile.gettempdir()
        _sweep_once(place)
        whole = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        held = _hold(whole)
        self.path = whole / "files"
        self.path.mkdir()
        # A process that is forked off has the folder too, and leaves it to its parent.
        self._end = weakref.finalize(self, _remove, whole, held, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and what is in it; once is enough."""
        self._end()


def sweep(place: Path) -> None:
    """Remove the folders in a temporary directory whose programs are dead."""
    for lock in place.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):
            held = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(held)


@cache
def _sweep_once(place: str) -> None:
    sweep(Path(place))


def _hold(folder: Path) -> int:
    """Lock a folder for as long as this process lives."""
    young = folder / f"{_LOCK}.new"
    held = os.open(young, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    # A sweep that runs meanwhile finds the lock only once it is held.
    young.rename(folder / _LOCK)
    return held


def _remove(folder: Path, held: int, owner: int) -> None:
    if os.getpid() != owner:
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)
