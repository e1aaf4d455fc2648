"""Every display of a search tells the same of a task: what leads, what fell, what is confirmed."""

import io
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from rich.console import Console

import kernelwright as kw
from kernelwright.campaign.event import (
    CampaignHeldUp,
    CandidateConfirmed,
    CandidateJudged,
    CandidateProposed,
    Event,
    FunctionPlanned,
    TaskEnded,
)
from kernelwright.evaluator.evaluation import Status
from kernelwright.service.console import THEME
from kernelwright.service.python.progress import NotebookTable
from kernelwright.service.view.progress import LiveTable, held_up
from kernelwright.store import Rank, TaskSummary

TASK = TaskSummary(id="t", name="rows", signature="s", dtype="f32", shapes="f32[4,8]")
RANK = Rank(kind="predicted", value=123.0)
LED = (
    FunctionPlanned(function="f", inputs="f32[4,8]", nodes=1, tasks=(TASK,), left=(), author="a"),
    CandidateProposed(task_id="t", candidate_id="c", author="a", idea="i", repairs=False),
    CandidateJudged(
        task_id="t",
        candidate_id="c",
        status=Status.CORRECT,
        summary="right",
        rank=RANK,
        reused=False,
        leads=True,
    ),
)


def _confirmed(rank: Rank | None) -> CandidateConfirmed:
    status = Status.CORRECT if rank else Status.WRONG
    return CandidateConfirmed(
        task_id="t", candidate_id="c", status=status, summary="said", rank=rank, reused=False
    )


def _shown(events: tuple[Event, ...]) -> tuple[str, str]:
    """Return what the notebook and the terminal show after the events."""
    pages: list[str] = []
    with NotebookTable(lambda html, text: pages.append(html)) as notebook:
        for event in events:
            notebook.show(event)
    console = Console(file=io.StringIO(), width=120, theme=THEME, markup=False)
    live = LiveTable(console, 4)
    for event in events:
        live.show(event)
    with console.capture() as captured:
        console.print(live._render())
    return pages[-1], captured.get()


@pytest.mark.parametrize("rank", [RANK, None])
def test_a_leader_that_was_not_confirmed_is_nowhere_the_best(rank: Rank | None) -> None:
    events = (*LED, _confirmed(rank), TaskEnded(task_id="t", reason="enough"))
    for page in _shown(events):
        assert ("123" in page) is (rank is not None)
        assert ("✓" in page) is (rank is not None)


def test_what_was_confirmed_after_another_took_the_lead_is_not_shown_as_the_best() -> None:
    judged = LED[-1].model_copy(
        update={"candidate_id": "d", "rank": Rank(kind="predicted", value=45.0)}
    )
    for page in _shown((*LED, judged, _confirmed(RANK))):
        assert "45" in page
        assert "123" not in page
        assert "✓" not in page


def test_what_leads_is_shown_until_it_is_confirmed() -> None:
    for page in _shown(LED):
        assert "123" in page


def test_the_registry_counts_the_calls_of_a_model(tmp_path: Path) -> None:
    class Counted(nn.Module):  # type: ignore[misc, name-defined]
        def __call__(self, x: mx.array) -> mx.array:
            return mx.softmax(x, axis=-1) * 2

    model = Counted()
    kw.optimize(model, store=tmp_path / "none.db")
    for _ in range(3):
        model(mx.zeros((4, 8)))
    (row,) = [row for row in kw.registry if row.function == "Counted"]
    assert row.calls == 3


def test_a_wait_is_told_to_the_tenth_of_a_second() -> None:
    waits = CampaignHeldUp(reason="the disk is full.", seconds=5.47458)
    assert held_up(waits) == "waits 5.5 s: the disk is full."
