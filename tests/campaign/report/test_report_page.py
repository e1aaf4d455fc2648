"""The report in a browser: on a phone and on a desk, no figure is cut, broken or out of sight."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from kernelwright.campaign import Engine, SearchSpec, capture_subjects
from kernelwright.campaign.report.campaign_page import as_html
from kernelwright.campaign.report.report_query import report_of
from kernelwright.evaluator.gain import Gain
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team

_CHROMIUM = Path("/usr/bin/chromium")
_BROKEN = """[...document.querySelectorAll('td.n')].filter(cell => {
  const words = (cell.textContent.match(/~?[0-9.]+ µs|~?[0-9.]+×|[0-9a-f]{8}/g) || []);
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
  return words.length === 1 && lines.size > 1;
}).map(cell => cell.textContent)"""
_OUTSIDE = """[...document.querySelectorAll('body *')].filter(
  e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName)"""

pytestmark = pytest.mark.skipif(not _CHROMIUM.exists(), reason="there is no Chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        options += ["--disable-component-update", "--disable-sync"]
        opened = playwright.chromium.launch(executable_path=_CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with KernelStore(str(folder / "kernels.db")) as store:
        engine = Engine(store, SearchSpec(), team(), ScriptedJudge)
        report = engine.run(capture_subjects(subjects()))
        campaign_report = report_of(store, store.campaign(report.campaign_id))
    gain = Gain(kind="predicted", baseline="mx.compile", chip="m4-pro", ratio=3.36, kernel_us=12.75)
    name = "masked_softmax_with_temperature_and_smoothing"
    tasks = tuple(
        task.model_copy(
            update={"gain": gain, "task": task.task.model_copy(update={"name": f"{name}_{i}"})}
        )
        for i, task in enumerate(campaign_report.tasks)
    )
    file = folder / "report.html"
    file.write_text(as_html(campaign_report.model_copy(update={"tasks": tasks})))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_figure_is_broken_or_out_of_sight(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    opened.goto(page.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert opened.evaluate(_OUTSIDE) == []
    assert opened.evaluate("document.querySelectorAll('td.n').length") > 4
    assert opened.evaluate(_BROKEN) == []
    opened.close()
