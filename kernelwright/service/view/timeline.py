"""Where the seconds of a command went, shown at its end."""

import os
from collections.abc import Callable

from kernelwright.scratch import ScratchFolder
from kernelwright.service.console import error_console
from kernelwright.timeline import VARIABLE, mark_start, read_spans, timeline_text


def begin_timeline() -> Callable[[], None]:
    """Have this process and those that it starts write down their work; return what shows it."""
    folder = ScratchFolder()
    path = folder.path / "timeline"
    os.environ[VARIABLE] = str(path)
    mark_start()

    def show() -> None:
        os.environ.pop(VARIABLE, None)
        text = timeline_text(read_spans(path))
        error_console().print(text, markup=False, highlight=False, soft_wrap=True)
        folder.remove()

    return show
