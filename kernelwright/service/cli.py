"""The command line's entry: an expected error, or Ctrl-C at any moment, is one line."""

import errno
import gc
import io
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kernelwright.service.exit_code import FAILED, INTERRUPTED, MISUSED, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.service.collaborator import Collaborators

TRACEBACK = "KERNELWRIGHT_TRACEBACK"
"""Shows where an error that nobody expected came from."""
_FAILING = ("strict", "surrogateescape")
"""How streams treat what their encoding lacks: with an error; in the C locale by the second."""
_LOADED = 150_000
"""About as many objects as the modules of a large command make; nearly all of them stay."""
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)


def main(collaborators: "Collaborators | None" = None) -> None:
    """Run the command line; a `KernelwrightError` is one line.

    Campaigns work with `collaborators`, by default those of the product.
    """
    _make_writable()
    try:
        # Loading the commands takes a second, in which Ctrl-C may come.
        status = _run(collaborators)
        # At exit, Python would report what cannot be written, as an exception that it ignores.
        sys.stdout.flush()
    except KeyboardInterrupt as e:
        _tell(" ".join(map(str, e.args)) or "interrupted")
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        _give_up(sys.stdout)
        _give_up(sys.stderr)
        status = UNREAD
    except OSError as e:
        if not _is_of_output(e):
            raise
        _give_up(sys.stdout)
        _tell_error(f"standard output cannot be written: {e.strerror}; write it elsewhere.")
        status = FAILED
    sys.exit(status)


@contextmanager
def _loading_uncollected() -> "Iterator[None]":
    """Search for cycles late while modules are loaded, then as usual.

    What the collector calls back may not tell when that is: Ctrl-C would be lost there.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_LOADED, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _make_writable() -> None:
    """Give the program streams where a parent closed them, and let them spell what they lack."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in _FAILING:
            # An ASCII terminal has neither a micro sign nor a multiplication sign.
            stream.reconfigure(errors="replace")


def _run(collaborators: "Collaborators | None") -> int:
    from kernelwright.errors import KernelwrightError, UsageError
    from kernelwright.extra import missing_extra

    try:
        with _loading_uncollected():
            from kernelwright.service.commands import app
        app(obj=collaborators)
    except KernelwrightError as e:
        _tell_error(str(e))
        return MISUSED if isinstance(e, UsageError) else FAILED
    except ImportError as e:
        if (missing := missing_extra(e)) is None:
            raise
        _tell_error(str(missing))
        return FAILED
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as e:
        if os.environ.get(TRACEBACK) or (isinstance(e, OSError) and _is_of_output(e)):
            raise
        found = f"{type(e).__name__}: {e}".split("\n")[0]
        _tell_error(
            f"Kernelwright failed ({found}), which is a fault of its own; "
            f"set {TRACEBACK}=1 to see where."
        )
        return FAILED
    except SystemExit as e:
        # Typer ends a command that Ctrl-C broke off without a word.
        if e.__context__ is not None and isinstance(
            interrupted := e.__context__.__cause__, KeyboardInterrupt
        ):
            raise KeyboardInterrupt(*interrupted.args) from e
        # Typer ends with 1, too, where the reader is gone.
        if isinstance(e.__context__, OSError) and e.__context__.errno == errno.EPIPE:
            raise BrokenPipeError from e
        sys.stdout.flush()
        raise
    return 0


def _tell_error(sentence: str) -> None:
    """Print an error on one line; several lines, such as a list, stay as they are."""
    one_line = " ".join(sentence.split("\n")) if sentence.count("\n") < 2 else sentence
    try:
        from rich.text import Text

        from kernelwright.service.console import error_console
    except ImportError:
        # What is missing may be rich itself.
        _tell(f"error {one_line}")
        return
    try:
        error_console().print(Text.assemble(("error", "bad"), f" {one_line}"), soft_wrap=True)
    except OSError:
        _give_up(sys.stderr)


def _tell(line: str) -> None:
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)


def _is_of_output(error: OSError) -> bool:
    """Say whether it is standard output that could not be written."""
    if error.filename is not None or error.errno not in _UNWRITABLE:
        return False
    try:
        # Python drops what it could not write; only another try shows where that was to go.
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _give_up(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, so that Python can end in peace."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except OSError:
        return


if __name__ == "__main__":
    main()
