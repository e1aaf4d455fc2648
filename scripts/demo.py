"""Types the main commands for you: search every example, ask for the best, take one away.

Everything runs on this machine's CPU, with no key and no GPU. `--svg DIR` keeps the last
screens as pictures.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kernelwright.campaign.report.wording import in_seconds
from kernelwright.errors import KernelwrightError
from kernelwright.service.commands import app
from kernelwright.service.console import console
from kernelwright.store import KernelStore

ROOT = Path(__file__).parents[1]
NEEDED = {"llama_block": "mlx_lm"}
TAKEN = "residual_rms_norm"


def main() -> int:
    """Run the demo; returns 1 when an example ends without a right kernel."""
    options = _options()
    screen = console()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kernelwright-demo-") as folder:
        store = options.store or str(Path(folder) / "kernels.db")
        files = _examples(screen)
        if options.svg is not None:
            screen.record, screen.width = True, 112
        _search(screen, files, options.candidates, store)
        _picture(screen, options.svg, "search")
        _run(screen, ["best"], store)
        champion = _champion(store)
        taken = options.output or Path(folder) / "vendored"
        _run(screen, ["export", champion, "-o", str(taken)], store)
        tests_passed = _test(screen, taken)
        _picture(screen, None, "")
        _run(screen, ["show", champion], store)
        _picture(screen, options.svg, "show")
        missing = _without_champion(store, files)
    took = in_seconds(time.monotonic() - started)
    if missing or not tests_passed:
        screen.print(f"\nNo right kernel for {', '.join(missing)}; {took}.", style="bad")
        return 1
    screen.print(f"\n{len(files)} examples, every champion verified, {took}.", style="good")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="keep what is found in this store")
    parser.add_argument("--output", type=Path, help="keep the exported module in this folder")
    parser.add_argument("--candidates", type=int, default=6, help="candidates for each task")
    parser.add_argument("--svg", type=Path, help="keep pictures of the screens in this folder")
    return parser.parse_args()


def _examples(screen: Console) -> list[str]:
    files = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        needed = NEEDED.get(path.stem)
        if needed is not None and find_spec(needed) is None:
            screen.print(f"{path.name} is left out: it needs the package {needed}.", style="warn")
            continue
        files.append(os.path.relpath(path))
    return files


def _search(screen: Console, files: Sequence[str], candidates: int, store: str) -> None:
    pattern = Path(files[0]).parent / "*.py"
    command = f"kernelwright search {pattern} --candidates {candidates}"
    screen.print(Text(f"\n$ {command}", style="command"), soft_wrap=True)
    # A picture of progress would show its every step.
    quiet = ["--quiet"] if screen.record else []
    arguments = ["search", *files, "--candidates", str(candidates), *quiet, "--store", store]
    app(arguments, standalone_mode=False)


def _run(screen: Console, arguments: Sequence[str], store: str) -> None:
    """Show a command as one types it, and run it."""
    screen.print(Text(f"\n$ kernelwright {shlex.join(arguments)}", style="command"), soft_wrap=True)
    app([*arguments, "--store", store], standalone_mode=False)


def _champion(store: str) -> str:
    with KernelStore(store, must_exist=True) as opened:
        found = {champion.task.name: champion.candidate_id for champion in opened.best(limit=1000)}
    return found.get(TAKEN, next(iter(found.values())))[:8]


def _without_champion(store: str, files: Sequence[str]) -> list[str]:
    with KernelStore(store, must_exist=True) as opened:
        won = {c.task.name.partition("/")[0] for c in opened.best(limit=1000)}
    return [name for name in (Path(file).stem for file in files) if name not in won]


def _test(screen: Console, folder: Path) -> bool:
    screen.print(Text(f"\n$ pytest {folder}", style="command"), soft_wrap=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*pytest, "--rootdir", str(folder), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    screen.print(Text(done.stdout.strip()), soft_wrap=True)
    return done.returncode == 0


def _picture(screen: Console, folder: Path | None, name: str) -> None:
    """Write what was recorded since the last picture."""
    if not screen.record:
        return
    if folder is None:
        screen.export_text(clear=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    svg = screen.export_svg(title=f"kernelwright {name}")
    path = folder / f"{name}.svg"
    # Rich asks a server for its font; any monospaced one of the reader's will do.
    path.write_text(re.sub(r"@font-face \{[^}]*\}\s*", "", svg))
    print(f"wrote {path}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KernelwrightError as e:
        sys.exit(f"error {e}")
