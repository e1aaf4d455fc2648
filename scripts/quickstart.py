"""Types the commands of a tutorial: writes its titled files and runs its console blocks here."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

_BLOCK = re.compile(r"^```(?P<head>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


def main(page: Path) -> int:
    """Follow the page; return the first command's exit code that is not 0."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if title := _TITLE.search(block["head"]):
            Path(title[1]).write_text(block["text"])
        for line in block["text"].splitlines() if block["head"] == "console" else ():
            print(line, flush=True)
            command = shlex.split(line.removeprefix("$ "))
            program = str(Path(sys.executable).with_name(command[0]))
            if code := subprocess.run([program, *command[1:]], check=False).returncode:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
