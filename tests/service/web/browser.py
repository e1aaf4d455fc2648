"""A real server process and a real browser, for tests of the page."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE_MS = 90_000
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WORKPLACE = Path(__file__).parents[3]


@contextmanager
def served(url: str, *options: str, port: int = 0) -> Iterator[str]:
    """Run `kernelwright serve` in a process of its own; yield the address of the page."""
    command = [sys.executable, "-m", "kernelwright.service.cli", "serve", "--store", url]
    process = subprocess.Popen(
        [*command, "--port", str(port), *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_WORKPLACE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                yield found[0]
                break
        else:
            raise AssertionError("the server ended before it said where it is")
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()
