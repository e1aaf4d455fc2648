"""Writes pages and drawings where the user says, over none of the user's own files."""

from pathlib import Path

from kernelwright.errors import InputError
from kernelwright.file_write import write_file

_MARK = "<!-- Written by Kernelwright -->\n"
"""Begins what may be replaced; HTML, SVG and Markdown all take it for a comment."""


def write_output(path: Path, text: str) -> None:
    """Write HTML, SVG or Markdown, and replace only what was written so before.

    Raises:
        InputError: the file is somebody else's, or cannot be written.
    """
    try:
        if path.is_file() and not _is_ours(path):
            raise InputError(
                f"{path} exists and was not written by Kernelwright; name another file."
            )
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror}; name another file.") from e
    write_file(path, _MARK + text)


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(len(_MARK)) in ("", _MARK)
