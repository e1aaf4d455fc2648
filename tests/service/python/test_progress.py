"""A search is followed in a notebook, interrupted in order, and runs beside an event loop."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import mlx.core as mx
import pytest

import kernelwright as kw
from kernelwright.campaign.event import (
    CandidateJudged,
    Event,
    FunctionRefused,
    ModelRemarked,
)
from kernelwright.service.python import progress
from kernelwright.service.python.progress import NotebookTable, Silent, follow
from kernelwright.service.view.progress import LiveTable, PlainLines


class Shown:
    """What a notebook would have shown, each drawing in the place of the one before."""

    def __init__(self) -> None:
        self.html: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, html: str, text: str) -> None:
        self.html.append(html)
        self.threads.add(threading.get_ident())


class Interrupting(NotebookTable):
    """Presses Ctrl-C at the first verdict."""

    def show(self, event: Event) -> None:
        super().show(event)
        if isinstance(event, CandidateJudged):
            signal.raise_signal(signal.SIGINT)


def rows(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1) * 3


def test_ctrl_c_ends_a_search_in_order_and_the_same_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown()
    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("kernelwright.service.python.search.follow", lambda *_: Interrupting(shown))
    store = tmp_path / "kernels.db"
    first = kw.search(rows, inputs=["f32[4,32]"], device="simulator", jobs=1, store=store)
    assert first.interrupted
    assert first.report.evaluated < 12
    assert "interrupted, the same search goes on from here" in first._repr_html_()
    assert signal.getsignal(signal.SIGINT) is handler
    assert "search rows on simulator" in shown.html[-1]
    assert "<td" in shown.html[-1]
    assert shown.threads == {threading.get_ident()}
    monkeypatch.undo()

    async def again() -> object:
        return kw.search(
            rows,
            inputs=["f32[4,32]"],
            device="simulator",
            jobs=1,
            evaluations=1,
            store=store,
            progress=False,
        )

    # A notebook's cell runs where an event loop runs already.
    second = asyncio.run(again())
    assert second.history[-1].candidate_id == first.history[-1].candidate_id  # type: ignore[attr-defined]
    assert second.report.tasks[0].reused >= first.report.tasks[0].tried  # type: ignore[attr-defined]


def test_remarks_from_other_threads_are_drawn_by_the_thread_that_searches() -> None:
    shown = Shown()
    with NotebookTable(shown) as table:
        event = ModelRemarked(sentence="the model is <away>")
        thread = threading.Thread(target=table.show, args=(event,))
        thread.start()
        thread.join()
        table.show(FunctionRefused(function="f", reason="no graph"))
    assert "the model is &lt;away&gt;" in shown.html[-1]
    assert "f: no graph" in shown.html[-1]
    assert "interrupt the kernel" not in shown.html[-1]
    assert shown.threads == {threading.get_ident()}


@pytest.mark.parametrize(
    ("kind", "view"),
    [(False, Silent), ("none", Silent), ("lines", PlainLines), ("live", LiveTable)],
)
def test_a_display_can_be_chosen(kind: progress.Progress | bool, view: type) -> None:
    assert isinstance(follow(kind, 2), view)


def test_a_notebook_shows_nothing_before_a_search_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    shown: list[object] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, **_: shown.append(bundle))
    progress.NotebookTable()
    assert shown == []


def test_without_a_terminal_and_a_notebook_there_are_lines() -> None:
    assert isinstance(follow("auto", 2), PlainLines)
    assert isinstance(follow(True, 2), PlainLines)


def test_a_function_typed_at_a_prompt_is_planned(tmp_path: Path) -> None:
    typed = (
        "import mlx.core as mx, kernelwright as kw\n"
        "def typed(x): return mx.softmax(x, axis=-1) * 2\n\n"
        "print(kw.plan(typed, inputs='f32[8,64]').regions[0].name)\n"
        "print(kw.plan(lambda x: mx.exp(x) * 2, inputs=mx.zeros((8, 64))).outlines[0].function)\n"
    )
    done = subprocess.run(
        [sys.executable, "-i", "-q", "-c", ""],
        input=typed,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.split() == ["typed", "unnamed"], done.stderr
