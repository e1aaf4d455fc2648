"""A process for each candidate, forked from one that has imported all and has run none.

What a candidate does to its process, environment, folder or libraries ends with it.
"""

import contextlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from kernelwright.evaluator.worker.landlock import confine_signals

_NEXT = 113
"""The exit code by which a process asks for its successor."""
_INIT = 1


def give_way() -> NoReturn:
    """End this process; the one that forked it starts the next."""
    os._exit(_NEXT)


def run_in_succession(serve: Callable[[bool], None], folders: Sequence[str]) -> None:
    """Fork a process that serves, and another each time that one gives way.

    `serve` is told whether it is a successor. `folders` are emptied between two of them. Returns
    when one ends for good; one that dies takes this process with it, in the same way.
    """
    is_successor = False
    while True:
        child = os.fork()
        if child == 0:
            _serve(serve, is_successor=is_successor)
        status = _wait(child)
        _end_others()
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _NEXT:
            for folder in folders:
                _empty(Path(folder))
            is_successor = True
            continue
        end_as(status)


def _serve(serve: Callable[[bool], None], *, is_successor: bool) -> NoReturn:
    code = 1
    try:
        confine_signals()
        serve(is_successor)
        code = 0
    except BaseException:
        # The process ends below, before Python could say so.
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int) -> int:
    """Wait for a child, and bury what others have left to this process."""
    while True:
        found, status = os.waitpid(-1, 0)
        if found == child:
            return status


def _end_others() -> None:
    """Kill whatever a candidate has started; only the first process of a namespace knows all."""
    if os.getpid() != _INIT:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def end_as(status: int) -> NoReturn:
    """End as another process has ended."""
    if os.WIFSIGNALED(status) and os.getpid() != _INIT:
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    # The first process of a namespace cannot die of its own signals: it says how it would have.
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
