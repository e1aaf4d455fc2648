"""Takes the pictures of the page for its documentation, from a store that real searches filled.

    .venv/bin/python scripts/page_pictures.py [--store kernels.db]

Without a store, an example is searched on the simulator. In either, a scripted model that answers
over HTTP holds the conversation. Look at each picture before you commit it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kernelwright.campaign.execution.judge import judge_on  # noqa: E402
from kernelwright.evaluator.config import EvaluatorConfig  # noqa: E402
from kernelwright.store import KernelStore  # noqa: E402
from tests.agents.loopback.loop import Shared, search  # noqa: E402
from tests.agents.loopback.model import SCENARIOS  # noqa: E402
from tests.agents.loopback.partner import NAMES  # noqa: E402
from tests.agents.loopback.server import LoopbackServer  # noqa: E402
from tests.service.web.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, served  # noqa: E402

_BELOW_THE_HEAD = """e => scrollBy(
    0, e.getBoundingClientRect().top - document.querySelector("header").offsetHeight - 12)"""
EXAMPLE = ROOT / "examples" / "llama_block.py"


@dataclass(frozen=True)
class Picture:
    """One view, how large, and what it is scrolled to."""

    file: str
    place: str
    whole: str
    """What is there once the view is complete."""
    size: tuple[int, int] = (1120, 760)
    is_dark: bool = False
    top: str = ""
    """What is scrolled to the top; the page's own top by default."""


def main() -> None:
    """Fill a store where none is given, and take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="A store with a search of several tasks.")
    parser.add_argument("--output", default=str(ROOT / "docs"), help="The folder of the pictures.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelwright-pictures-") as folder:
        store = options.store or _searched(Path(folder) / "kernels.db")
        taken = _pictures(store, _conversation(store))
        with served(store) as address, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            for picture in taken:
                _take(browser, address, picture, Path(options.output))
            browser.close()


def _searched(path: Path) -> str:
    command = [sys.executable, "-m", "kernelwright", "search", str(EXAMPLE)]
    subprocess.run(
        [*command, "--device", "simulator", "--store", str(path)], check=True, cwd=path.parent
    )
    return str(path)


def _conversation(path: str) -> str:
    """Let a scripted model write a kernel; return the task's id."""
    judge = judge_on("simulator", EvaluatorConfig())
    os.environ |= {"OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    with (
        KernelStore(path) as store,
        LoopbackServer(SCENARIOS["compile error, then fixed"]()) as server,
    ):
        name = f"openai:{NAMES['openai']}"
        report = search(store, Shared(judge), name, server.base_url("openai"))
    judge.close()
    return report.tasks[0].task_id


def _pictures(path: str, talked_about: str) -> tuple[Picture, ...]:
    with KernelStore(path, must_exist=True) as store:
        largest = max(store.campaigns(), key=lambda run: len(store.browse.tasks([run.id])))
        rows = [row for row in store.browse.tasks([largest.id]) if row.champion_id and row.speedup]
        gained = max(rows, key=lambda row: row.speedup.ratio if row.speedup else 0.0)
        descended = [
            e for e in store.history(task=gained.task.id) if store.show(e.candidate_id).lineage
        ]
    task = f"task/{gained.task.id[:16]}"
    child = f"{task}/{descended[0].candidate_id[:16]}"
    best = f"{task}/{(gained.champion_id or '')[:16]}"
    return (
        Picture("page-campaign.png", f"campaign/{largest.id[:16]}", "table.rows tbody a"),
        Picture("page-diff.png", f"{child}/diff", ".diff .added, .diff .removed"),
        Picture(
            "page-conversation.png",
            f"task/{talked_about[:16]}/conversations",
            ".chat .turn",
            top=".turn.model, .turn.assistant",
        ),
        Picture(
            "page-phone.png",
            f"{best}/roofline",
            "svg .dot",
            size=(390, 844),
            is_dark=True,
            top=".detail",
        ),
    )


def _take(browser: Browser, address: str, picture: Picture, folder: Path) -> None:
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.is_dark else "light",
    )
    page = context.new_page()
    page.goto(f"{address}#/{picture.place}")
    expect(page.locator(picture.whole).first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("main[aria-busy]")).to_have_count(0, timeout=PATIENCE_MS)
    if picture.top:
        page.locator(picture.top).first.evaluate(_BELOW_THE_HEAD)
    page.screenshot(path=folder / picture.file)
    context.close()


if __name__ == "__main__":
    main()
