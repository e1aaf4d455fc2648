"""The command line's entry: an expected error, or Ctrl-C at any moment, is one line."""

import errno
import os
import sys

from kernelwright.service.exit_code import FAILED, INTERRUPTED, MISUSED, UNREAD

TRACEBACK = "KERNELWRIGHT_TRACEBACK"
"""Shows where an error that nobody expected came from."""


def main() -> None:
    """Run the command line; a `KernelwrightError` is one line."""
    try:
        # Loading the commands takes a second, in which Ctrl-C may come.
        status = _run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        sys.stderr.close()
        status = UNREAD
    sys.exit(status)


def _run() -> int:
    from rich.text import Text

    from kernelwright.errors import KernelwrightError, UsageError
    from kernelwright.extra import missing_extra
    from kernelwright.service.commands import app
    from kernelwright.service.console import error_console

    try:
        app()
    except KernelwrightError as e:
        one_line = " ".join(str(e).split("\n")) if str(e).count("\n") < 2 else str(e)
        error_console().print(Text.assemble(("error", "bad"), f" {one_line}"), soft_wrap=True)
        return MISUSED if isinstance(e, UsageError) else FAILED
    except ImportError as e:
        if (missing := missing_extra(e)) is None:
            raise
        error_console().print(Text.assemble(("error", "bad"), f" {missing}"), soft_wrap=True)
        return FAILED
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as e:
        if os.environ.get(TRACEBACK):
            raise
        found = f"{type(e).__name__}: {e}".split("\n")[0]
        said = (
            f" Kernelwright failed ({found}), which is a fault of its own; "
            f"set {TRACEBACK}=1 to see where."
        )
        error_console().print(Text.assemble(("error", "bad"), said), soft_wrap=True)
        return FAILED
    except SystemExit as e:
        # Typer ends a command that Ctrl-C broke off without a word.
        if e.__context__ is not None and isinstance(e.__context__.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from e
        # Typer ends with 1, too, where the reader is gone.
        if isinstance(e.__context__, OSError) and e.__context__.errno == errno.EPIPE:
            raise BrokenPipeError from e
        raise
    return 0


if __name__ == "__main__":
    main()
