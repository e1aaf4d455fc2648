"""Pages fit the terminal, and what one has to type is never cut."""

import io
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mlx.core as mx
import pytest
from rich.console import Console

from kernelwright.annotation import Example
from kernelwright.campaign import Engine, Event, SearchReport, SearchSpec, capture_subjects
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.run_state import RunState
from kernelwright.campaign.report.champion_list import champions_by_gain
from kernelwright.campaign.report.wording import in_local_span, in_local_time, in_seconds
from kernelwright.campaign.spec.subject import subject_of
from kernelwright.evaluator.gain import Gain, in_microseconds
from kernelwright.service.campaign_control import status_table
from kernelwright.service.console import THEME
from kernelwright.service.view.figure import MLX_IS_BEST, in_bytes
from kernelwright.service.view.listing import print_champions, print_history
from kernelwright.service.view.progress import LiveTable, PlainLines
from kernelwright.service.view.summary import print_search_summary
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team

WIDTHS = [40, 60, 80, 112, 160]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelStore, SearchReport]:
    store = KernelStore(str(tmp_path_factory.mktemp("view") / "kernels.db"))
    engine = Engine(store, SearchSpec(), team(), ScriptedJudge)
    return store, engine.run(capture_subjects(subjects()))


@pytest.mark.parametrize("width", WIDTHS)
def test_summary_fits_and_names_every_champion(
    searched: tuple[KernelStore, SearchReport], width: int
) -> None:
    _, report = searched
    console = _console(width)
    print_search_summary(console, report)
    text = _text(console, width)
    for task in report.tasks:
        assert str(task.champion_id)[:8] in text
    assert f"kernelwright show {str(report.tasks[0].champion_id)[:8]}" in text
    assert "6 wrong, 2 compile error" in re.sub(r"\s*│\s*", " ", text)


@pytest.mark.parametrize(("ratio", "is_offered"), [(0.65, False), (1.0, False), (1.3, True)])
def test_only_a_champion_that_gains_is_offered_for_export(
    searched: tuple[KernelStore, SearchReport], ratio: float, *, is_offered: bool
) -> None:
    _, report = searched
    gain = Gain(kind="predicted", baseline="mx.fast", chip="m4-pro", ratio=ratio)
    tasks = tuple(task.model_copy(update={"gain": gain}) for task in report.tasks)
    console = _console(112)
    print_search_summary(console, report.model_copy(update={"tasks": tasks}))
    assert ("kernelwright export" in _text(console, 112)) == is_offered
    assert ("MLX is best for all of it" in _text(console, 112)) != is_offered


@pytest.mark.parametrize("width", WIDTHS)
def test_lists_fit_and_keep_their_ids(
    searched: tuple[KernelStore, SearchReport], width: int
) -> None:
    store, _ = searched
    console = _console(width)
    print_champions(console, champions_by_gain(store), store.label)
    print_history(console, store.history())
    text = _text(console, width)
    assert "costs fitted on an H200 and carried over to other chips" in " ".join(text.split())
    for champion in store.best():
        assert champion.candidate_id[:8] in text
    assert "2.00" in text


def test_plain_lines_say_each_verdict_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    console = _console(200)
    report = _followed(PlainLines(console), tmp_path_factory)
    lines = _text(console, 200).splitlines()
    assert sum(": correct, ~" in line for line in lines) == 10
    assert sum(line.endswith(": confirmed") for line in lines) == 2
    assert report.store in lines[0]


@pytest.mark.parametrize("width", [50, 120])
def test_the_live_table_leaves_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, width: int
) -> None:
    console = Console(theme=THEME, file=io.StringIO(), force_terminal=True, width=width, height=20)
    view = LiveTable(console, 12)
    _followed(view, tmp_path_factory)
    assert console.file.getvalue().endswith("\x1b[2K")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rendered", "wanted"),
    [
        (in_bytes(0), "0 B"),
        (in_bytes(999), "999 B"),
        (in_bytes(1000), "1.00 kB"),
        (in_bytes(52_600), "52.6 kB"),
        (in_bytes(1_050_000), "1.05 MB"),
        (in_microseconds(12.44), "12.4 µs"),
        (in_microseconds(1300), "1.30 ms"),
        (in_seconds(0.84), "0.8 s"),
        (in_seconds(125), "2 min 05 s"),
        (in_seconds(59.97), "1 min 00 s"),
        (in_seconds(7500), "2 h 05 min"),
    ],
)
def test_figures_read_well(rendered: str, wanted: str) -> None:
    assert rendered == wanted


def _followed(
    view: LiveTable | PlainLines, tmp_path_factory: pytest.TempPathFactory
) -> SearchReport:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        view.show(event)

    with KernelStore(str(tmp_path_factory.mktemp("followed") / "kernels.db")) as store, view:
        engine = Engine(store, SearchSpec(), team(), ScriptedJudge, RunSettings(listen=listen))
        return engine.run(capture_subjects(subjects()))


def _console(width: int) -> Console:
    return Console(theme=THEME, file=io.StringIO(), width=width, highlight=False)


def _text(console: Console, width: int) -> str:
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    return text


@pytest.mark.parametrize("width", [80, 100, 112])
def test_verdicts_are_never_cut(searched: tuple[KernelStore, SearchReport], width: int) -> None:
    store, report = searched
    told = {"kind": "predicted", "baseline": "mx.fast", "chip": "m4-pro", "kernel_us": 123.4}
    gain = Gain(**told, ratio=0.95)
    tasks = tuple(
        task.model_copy(update={"gain": gain, "name": f"a_rather_long_name/{task.name * 9}"})
        for task in report.tasks
    )
    functions = tuple(
        f.model_copy(update={"gain": gain, "function": f.function * 9}) for f in report.functions
    )
    console = _console(width)
    slow = report.model_copy(update={"tasks": tasks, "functions": functions})
    print_search_summary(console, slow)
    assert _text(console, width).count(MLX_IS_BEST) == len(tasks)
    console = _console(width)
    champions = [
        c.model_copy(update={"gain": gain, "beats_mlx": False}) for c in champions_by_gain(store)
    ]
    print_champions(console, champions, store.label)
    text = _text(console, width)
    assert text.count(MLX_IS_BEST) == len(champions)
    assert all(c.task.shapes in text for c in champions)
    assert len(re.findall(r"\b\d+ s\b", text)) == len(champions)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("known", "spent"), [(12.34, "$12.34"), (0.56, "$0.56–"), (0.0014, "$0.0014–")]
)
def test_the_state_of_a_campaign_keeps_its_id_and_figures(
    width: int, known: float, spent: str
) -> None:
    state = RunState(
        id="0123456789abcdef",
        kind="campaign",
        name="a night over every function of every model there is",
        device="simulator",
        state="interrupted",
        tried=12345,
        evaluated=1,
        correct=1234,
        started_at=datetime(2020, 3, 1, 22, 5, tzinfo=UTC),
        ended_at=datetime(2020, 3, 2, 6, 30, tzinfo=UTC),
        seconds=7500,
        dollars=12.34,
        known_dollars=known,
    )
    console = _console(width)
    console.print(status_table([state]))
    text = _text(console, width)
    for whole in (
        "01234567 ",
        "campaign",
        "simulator",
        "interrupted",
        "12345",
        "1234 ",
        spent,
        " Mar 2020 ",
    ):
        assert whole in text
    assert "2 h 05 min" in text


def test_moments_are_told_on_the_clock_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert in_local_time(datetime(2020, 3, 1, 22, 5, tzinfo=UTC)) == "2 Mar 2020 07:05"
        this_year = datetime.now(UTC).replace(month=7, day=9, hour=1, minute=0)
        assert in_local_time(this_year) == "9 Jul 10:00"
        assert in_local_span(this_year, None) == "9 Jul 10:00 –"
        assert in_local_span(this_year, this_year + timedelta(hours=2)) == "9 Jul 10:00 – 12:00"
        until = in_local_span(this_year, this_year + timedelta(hours=20))
        assert until == "9 Jul 10:00 – 10 Jul 06:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_search_names_the_export_of_the_function(
    searched: tuple[KernelStore, SearchReport],
) -> None:
    _, report = searched
    gain = Gain(kind="predicted", baseline="mx.fast", chip="m4-pro", ratio=1.3)
    tasks = tuple(task.model_copy(update={"gain": gain}) for task in report.tasks)
    console = _console(80)
    print_search_summary(console, report.model_copy(update={"tasks": tasks}))
    assert "kernelwright export scripted.py:norm -o vendored/" in _text(console, 80)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_two_examples_of_a_function_are_told_apart(
    searched: tuple[KernelStore, SearchReport], width: int
) -> None:
    _, report = searched
    functions = tuple(
        f.model_copy(update={"function": "norm", "place": "norm.py:norm", "inputs": inputs})
        for f, inputs in zip(report.functions, ("f16[4,8]", "f16[64,8]"), strict=True)
    )
    console = _console(width)
    print_search_summary(console, report.model_copy(update={"functions": functions}))
    text = _text(console, width)
    assert "f16[4,8]" in text
    assert "f16[64,8]" in text
    assert "from 1 function;" in " ".join(text.replace("│", " ").split())


def test_champions_of_functions_that_share_a_name_are_told_apart_by_their_files(
    tmp_path: Path,
) -> None:
    store = KernelStore(str(tmp_path / "kernels.db"))
    for file, function in (("here.py", mx.tanh), ("there.py", mx.sin)):
        called = Example((mx.zeros((4, 8)),))
        engine = Engine(store, SearchSpec(), team(), ScriptedJudge)
        engine.run(capture_subjects([subject_of("norm", function, file, called)]))
    found = champions_by_gain(store)
    assert {(c.task.name, c.place) for c in found} == {("norm", "here.py"), ("norm", "there.py")}
    console = _console(112)
    print_champions(console, found, "kernels.db")
    assert "norm (here.py)" in _text(console, 112)
    (alone,) = champions_by_gain(store, op="tanh")
    assert alone.place == ""
