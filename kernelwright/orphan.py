"""Runs Kernelwright as a child that ends with its parent: `python -m kernelwright.orphan worker`.

The parent holds its standard input open, which the system closes when the parent dies.
"""

import os
import runpy
import signal
import sys
import threading


def end_with_parent() -> None:
    """Tell this process to end in order once its standard input ends."""

    def watch() -> None:
        while os.read(sys.__stdin__.fileno() if sys.__stdin__ else 0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    runpy.run_module("kernelwright", run_name="__main__", alter_sys=True)
