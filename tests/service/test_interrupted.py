"""Pages of a search that Ctrl-C ended: the same counts, no verdict on what was not tried."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from kernelwright.campaign import Engine, Event, SearchReport, SearchSpec, capture_subjects
from kernelwright.campaign.event import CandidateJudged, CandidateProposed
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.resuming import to_resume
from kernelwright.campaign.history.run_state import state_of
from kernelwright.campaign.report.campaign_page import as_markdown
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.report_query import report_of
from kernelwright.errors import InputError
from kernelwright.evaluator.gain import Gain
from kernelwright.service.console import THEME
from kernelwright.service.view.summary import print_search_summary
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelStore, SearchReport]:
    """Stop a search of two functions at the first verdict that leaves candidates begun."""
    store = KernelStore(str(tmp_path_factory.mktemp("stopped") / "kernels.db"))

    begun: list[Event] = []

    def stop(event: Event) -> None:
        if isinstance(event, CandidateProposed):
            begun.append(event)
        elif isinstance(event, CandidateJudged):
            begun.pop()
            if begun:
                engine.stop()

    engine = Engine(store, SearchSpec(jobs=1), team(), ScriptedJudge, RunSettings(listen=stop))
    return store, engine.run(capture_subjects(subjects()))


def test_summary_status_and_report_count_the_same_candidates(
    stopped: tuple[KernelStore, SearchReport],
) -> None:
    store, report = stopped
    run = store.campaign(report.campaign_id)
    assert report.ended.interrupted
    tried = sum(task.tried for task in report.tasks)
    campaign_report = _report(store, report)
    # More was begun than was tried.
    assert tried < len(store.history(campaign=run.id))
    assert tried == campaign_report.tried == state_of(store, run).tried
    assert report.duration_s == campaign_report.seconds == state_of(store, run).seconds


def test_what_was_not_tried_has_no_verdict(stopped: tuple[KernelStore, SearchReport]) -> None:
    _, report = stopped
    lines = {line.strip("│ ").split("  ")[0]: line for line in _summary(report).splitlines()}
    for task in report.tasks:
        line = lines[task.name]
        assert ("not tried" in line) == (not task.tried)
        waits = task.unconfirmed is not None
        assert ("not confirmed" in line) == waits
        assert ("open" in line) == (task.tried > 0 and not waits)
    assert any(task.unconfirmed for task in report.tasks)
    assert "the same command confirms what is left" in _summary(report)
    assert "with MLX" not in _summary(report)


def test_a_search_goes_on_by_its_own_command(
    stopped: tuple[KernelStore, SearchReport],
) -> None:
    store, report = stopped
    text = as_markdown(_report(store, report))
    assert "campaign resume" not in text
    assert "type the same search again" in text
    assert "(interrupted)" not in text.partition("\n## ")[0]
    with pytest.raises(InputError, match="is a search, not a campaign with a file"):
        to_resume(store, report.campaign_id[:8])


@pytest.mark.parametrize(("whole", "is_offered"), [(0.8, False), (1.2, True)])
def test_no_kernel_is_offered_of_a_function_that_mlx_does_best(
    tmp_path: Path, whole: float, *, is_offered: bool
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        engine = Engine(store, SearchSpec(), team(), ScriptedJudge)
        report = engine.run(capture_subjects(subjects()))
    tasks = tuple(t.model_copy(update={"gain": _gain(7.0)}) for t in report.tasks)
    functions = tuple(f.model_copy(update={"gain": _gain(whole)}) for f in report.functions)
    told = _summary(report.model_copy(update={"tasks": tasks, "functions": functions}))
    assert ("kernelwright export" in told) == is_offered


def _gain(ratio: float) -> Gain:
    return Gain(kind="predicted", baseline="mx.fast", chip="m4-pro", ratio=ratio, kernel_us=10.0)


def _report(store: KernelStore, report: SearchReport) -> CampaignReport:
    return report_of(store, store.campaign(report.campaign_id))


def _summary(report: SearchReport) -> str:
    console = Console(theme=THEME, file=io.StringIO(), width=112, highlight=False)
    print_search_summary(console, report)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_closing_page_is_named_by_how_the_search_ended(
    stopped: tuple[KernelStore, SearchReport],
) -> None:
    report = stopped[1]
    assert "search interrupted" in _summary(report)
    ended = report.ended.model_copy(update={"interrupted": False})
    assert "search finished" in _summary(report.model_copy(update={"ended": ended}))
    capped = ended.model_copy(update={"capped": True})
    assert "search capped" in _summary(report.model_copy(update={"ended": capped}))
