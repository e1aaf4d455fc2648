"""Keeps what a user's functions print off the screen, to be shown once."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from kernelwright.service.console import error_console

_MOST_LINES = 20


@contextmanager
def shown_once(name: str) -> Iterator[None]:
    """Collect what is printed meanwhile, and show each line once, on the error stream.

    Args:
        name: of what prints, a function or a file.
    """
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    finally:
        printed.seek(0)
        lines = list(dict.fromkeys(line.rstrip() for line in printed if line.strip()))
        if lines:
            _show(name, lines)


def _show(name: str, lines: list[str]) -> None:
    console = error_console()
    console.print(f"{name} printed:", style="quiet", markup=False, highlight=False)
    for line in lines[:_MOST_LINES]:
        console.print(f"  {line}", style="quiet", markup=False, highlight=False, soft_wrap=True)
    if len(lines) > _MOST_LINES:
        console.print(f"  … and {len(lines) - _MOST_LINES} more lines", style="quiet")
