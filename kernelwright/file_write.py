"""Writes files whole or not at all: a full disk leaves what was there before."""

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from kernelwright.errors import InputError


def write_file(path: Path, text: str) -> None:
    """Write a text where the user says.

    Raises:
        InputError: it cannot be written there; what was there still is.
    """
    try:
        replace_file(path, text.encode())
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror}; name another file.") from e


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then put it in its place, with its permissions.

    Links are followed; a device or a pipe, such as /dev/stdout, is written to.

    Raises:
        OSError: it cannot be written; nothing is left beside it.
    """
    if path.exists() and (not path.is_file() or path.absolute().is_relative_to("/dev")):
        path.write_bytes(content)
        return
    place = path.resolve()
    # A name of nearly 255 bytes has no room for more.
    partial = place.with_name(f".{place.name[-100:]}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        if place.exists():
            partial.chmod(place.stat().st_mode)
        partial.replace(place)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def move_file(made: Path, place: Path) -> None:
    """Move a finished file to its place in one step, from another file system as well.

    A folder that a sandbox mounts is another file system, whatever disk it is on.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    try:
        made.replace(place)
    except OSError as e:
        if e.errno != errno.EXDEV:
            raise
        with tempfile.TemporaryDirectory(dir=place.parent) as beside:
            Path(shutil.copy2(made, beside)).replace(place)
        made.unlink()
