"""The morning's report says what happened, keeps predictions apart, and is one file."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import mlx.core as mx
import pytest

from kernelwright.agents.budget import Cost
from kernelwright.agents.message import Prompt, Purpose, Usage
from kernelwright.agents.session.ledger import Call, Outcome
from kernelwright.campaign import Engine, SearchSpec, capture_subjects
from kernelwright.campaign.history.ledger import StoreLedger
from kernelwright.campaign.history.run_state import state_of
from kernelwright.campaign.report.campaign_page import advice, as_html, as_markdown
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.gain_bars import gain_bars
from kernelwright.campaign.report.live_status import StatusReader
from kernelwright.campaign.report.progress_plot import best_for_money, best_so_far
from kernelwright.campaign.report.report_query import report_of
from kernelwright.campaign.report.spend import payments, spending
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.evaluator import Evaluation, Status
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.evaluator.gain import Gain, gain_of
from kernelwright.ir import capture
from kernelwright.store import KernelStore, ModelCall, ModelOutcome
from tests.campaign.mortal_night import night, spec_in, three_subjects
from tests.campaign.scripted import INFO, ScriptedCoder, ScriptedJudge, subjects, team
from tests.store.conftest import task_of

GAIN = Gain(kind="predicted", baseline="mx.fast", chip="m4-pro", ratio=1.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


def test_it_counts_what_was_tried_and_shows_the_example_that_was_mended(
    store: KernelStore,
) -> None:
    campaign_report = _report(store)
    assert [(t.task.name, t.right, t.tried) for t in campaign_report.tasks] == [
        ("norm", 5, 9),
        ("softmax", 5, 9),
    ]
    assert [(f.status, f.count) for f in campaign_report.failures] == [
        (Status.WRONG, 6),
        (Status.COMPILE_ERROR, 2),
    ]
    assert [f.was_repaired for f in campaign_report.failures] == [False, True]
    assert [p.rank.value for p in campaign_report.tasks[0].points] == [9.0, 3.0, 2.0]


def test_both_files_name_champions_and_label_predictions(store: KernelStore) -> None:
    campaign_report = _report(store)
    champions = [t.champion.candidate_id[:8] for t in campaign_report.tasks if t.champion]
    assert len(champions) == 2
    for text in (as_html(campaign_report), as_markdown(campaign_report)):
        assert all(id_ in text for id_ in champions)
        assert "Every time and every ratio here is a prediction" in text
        assert f"kernelwright history --campaign {campaign_report.campaign_id[:8]}" in text


def test_the_page_needs_nothing_but_itself_and_escapes_what_others_wrote(
    store: KernelStore,
) -> None:
    page = as_html(_report(store, ScriptedCoder(("wrong <script>", "correct 3"))))
    assert not re.search(r"<script|<link|src=|@import|url\(", page)
    assert "&lt;script&gt;" in page
    assert "prefers-color-scheme: dark" in page


def test_the_plots_are_well_formed_and_empty_without_right_candidates(
    store: KernelStore,
) -> None:
    campaign_report = _report(store)
    gains = [t.gain.ratio for t in campaign_report.tasks if t.gain]
    labels = _labels(best_so_far(campaign_report.tasks, campaign_report.seconds))
    assert {f"norm ~{gains[0]:.2f}×", f"softmax ~{gains[1]:.2f}×", "running time, s"} <= labels
    bars = _labels(gain_bars(campaign_report.ranked))
    assert {"norm", "softmax", f"~{gains[0]:.2f}× over mx.fast"} <= bars
    assert best_so_far((), 1.0) == gain_bars(()) == ""
    assert best_for_money(campaign_report.tasks, campaign_report.dollars) == "", "no model was paid"


def test_without_champions_lines_are_multiples_of_the_first_right_candidate(
    store: KernelStore,
) -> None:
    tasks = [t.model_copy(update={"gain": None}) for t in _report(store).tasks]
    labels = _labels(best_so_far(tasks, 9.0))
    assert {"norm 4.50×", "softmax 4.50×"} <= labels
    paid = [
        t.model_copy(
            update={"points": tuple(p.model_copy(update={"dollars": 0.1}) for p in t.points)}
        )
        for t in tasks
    ]
    assert {"paid to models", "$0.10", "norm 4.50×"} <= _labels(best_for_money(paid, 0.2))


def test_money_is_added_up_to_the_moment_of_each_point(store: KernelStore) -> None:
    campaign_report = _report(store)
    (run,) = store.campaigns()
    call = ModelCall(
        id="c", campaign_id=run.id, provider="p", model="m", role="coder", request_hash="h",
        request="{}",
    )  # fmt: skip
    store.dialogue.begin_call(call)
    store.dialogue.finish_call("c", ModelOutcome(cost_microdollars=250_000))
    (paid,) = payments(store, [run.id])
    assert paid.dollars == 0.25
    assert paid.at >= run.started_at
    assert {p.dollars for t in campaign_report.tasks for p in t.points} == {0.0}
    again = report_of(store, run)
    assert again.dollars == 0.25
    assert "together" in as_html(again)


def test_what_a_replay_answers_is_no_call_and_takes_no_tokens(store: KernelStore) -> None:
    _report(store)
    (run,) = store.campaigns()
    asked = StoreLedger(store, run.id)
    for again in (False, True):
        asked.begin(
            Call(
                id=f"c{again}",
                request_hash="h",
                purpose=Purpose(role="coder"),
                model="p:m",
                prompt=Prompt(system="", context="", request="", template="t@0"),
                shape="",
                worst=Cost(),
            )
        )
        usage = Usage(input_tokens=30, output_tokens=12)
        asked.finish(f"c{again}", Outcome(usage=usage, latency_s=1.0, is_replayed=again))
    (row,) = spending(store, [run.id], {})
    assert (row.calls, row.replayed_calls, row.tokens) == (1, 1, 42)
    assert row.asked == "1 (1 more replayed)"
    assert store.browse.totals([run.id]).spend.calls == 1
    assert len(payments(store, [run.id])) == 1
    assert "1 (1 more replayed)" in as_markdown(report_of(store, run))


def test_tasks_of_one_name_are_paid_for_in_rows_of_their_own(store: KernelStore) -> None:
    _report(store)
    (run,) = store.campaigns()
    known = {}
    for number, columns in enumerate((8, 16)):
        task = task_of((4, columns), name="twin")
        store.keep_task(task, signature="softmax", campaign_id=run.id)
        known[task.fingerprint] = store.browse.task(task.fingerprint)
        call = ModelCall(
            id=f"c{number}", campaign_id=run.id, task_id=task.fingerprint, provider="p", model="m",
            role="coder", request_hash="h", request="{}",
        )  # fmt: skip
        store.dialogue.begin_call(call)
        store.dialogue.finish_call(call.id, ModelOutcome(cost_microdollars=250_000))
    rows = spending(store, [run.id], known)
    assert [(row.task, row.calls, row.dollars) for row in rows] == [("twin", 1, 0.25)] * 2
    assert [row.shapes for row in rows] == sorted(task.shapes for task in known.values())


def test_it_says_what_is_most_worth_doing(store: KernelStore) -> None:
    campaign_report = _report(store)
    tasks = campaign_report.tasks

    def told(**changes: object) -> str:
        return advice(campaign_report.model_copy(update=changes))

    timed = campaign_report.environment.model_copy(
        update={"device": INFO.model_copy(update={"measures_time": True})}
    )
    even = tuple(
        t.model_copy(update={"gain": t.gain and t.gain.model_copy(update={"ratio": 1.0})})
        for t in tasks
    )
    faster = tuple(
        t.model_copy(update={"gain": t.gain and t.gain.model_copy(update={"ratio": 2.0})})
        for t in tasks
    )
    assert told(state="running").startswith("Wait")
    assert told(state="dead", reason="").startswith("Go on: it ended early (dead)")
    assert told(tasks=(tasks[0].model_copy(update={"right": 0}),)).startswith("Read the failures")
    assert told(tasks=faster) == (
        "Measure the 2 champions on a Mac: copy the store, run kernelwright store verify."
    )
    assert told(tasks=faster, environment=timed).startswith("Export the champions")
    assert told(tasks=even).startswith("Leave norm, softmax to MLX")
    assert told(tasks=()).startswith("Search again")
    for page in (as_html(campaign_report), as_markdown(campaign_report)):
        assert advice(campaign_report) in page


def test_a_gain_is_over_the_strongest_baseline_that_was_measured() -> None:
    measured = [
        Speedup(baseline=b, ratio=r, lower=r, upper=r, confidence=0.95, kind="measured")
        for b, r in (("eager", 3.0), ("compile", 1.5))
    ]
    guess = measured[0].model_copy(update={"kind": "predicted", "ratio": 0.5})
    evaluation = Evaluation(
        task="t", program="p", device=INFO, status=Status.CORRECT, summary="",
        speedups=(guess, *measured),
    )  # fmt: skip
    graph = capture(lambda x: mx.exp(x) + 1, mx.zeros((4, 8)))
    gain = gain_of(evaluation, graph)
    assert (gain.kind, gain.baseline, gain.ratio) == ("measured", "mx.compile", 1.5)
    assert gain.words == "1.50× [1.50, 1.50] at 95% over mx.compile on scripted (measured)"
    by_bytes = gain_of(evaluation.model_copy(update={"speedups": ()}), graph)
    assert (by_bytes.kind, by_bytes.ratio) == ("traffic", 1.0)
    assert "not timed" in by_bytes.words


def _labels(plot: str) -> set[str]:
    """Return what a plot says: its texts, and its lines with what is in them."""
    found = ElementTree.fromstring(plot).iter()
    kinds = ("{http://www.w3.org/2000/svg}text", "li", "div")
    return {"".join(node.itertext()) for node in found if node.tag in kinds}


def _report(store: KernelStore, coder: ScriptedCoder | None = None) -> CampaignReport:
    engine = Engine(store, SearchSpec(jobs=1), team(coder), ScriptedJudge)
    engine.run(capture_subjects(subjects()))
    return report_of(store, store.campaigns()[0])


def test_what_mlx_beats_is_listed_apart_from_what_gets_faster(store: KernelStore) -> None:
    campaign_report = _report(store)
    ratios = dict(zip(("norm", "softmax"), (0.65, 1.4), strict=True))
    tasks = tuple(
        t.model_copy(update={"gain": GAIN.model_copy(update={"ratio": ratios[t.task.name]})})
        for t in campaign_report.tasks
    )
    found = campaign_report.model_copy(update={"tasks": tasks})
    for text in (as_html(found), as_markdown(found)):
        _, _, told = text.partition("What should get faster")
        faster, heading, even = told.partition("What cannot get faster")
        assert heading
        assert "~1.40×" in faster
        assert "0.65×" not in faster
        assert "0.65×" in even


def test_what_was_not_tried_or_not_confirmed_is_not_said_to_be_mlx_s(store: KernelStore) -> None:
    campaign_report = _report(store)
    norm, softmax = campaign_report.tasks
    nothing = {"champion": None, "gain": None, "points": ()}
    untried = norm.model_copy(update={**nothing, "tried": 0, "right": 0})
    waiting = softmax.model_copy(update={**nothing, "tried": 4, "right": 4})
    functions = tuple(f.model_copy(update={"gain": None}) for f in campaign_report.functions)
    left = {"tasks": (untried, waiting), "functions": functions}
    found = campaign_report.model_copy(update=left)
    assert not found.even
    for text in (as_html(found), as_markdown(found)):
        assert "MLX is best" not in text
        assert "What is open" in text
        assert "4 right of 4, none confirmed" in text


def test_durations_are_one_figure_in_one_form_on_every_page(store: KernelStore) -> None:
    report = Engine(store, SearchSpec(), team(), ScriptedJudge).run(capture_subjects(subjects()))
    (run,) = store.campaigns()
    campaign_report = report_of(store, run)
    assert report.duration_s == campaign_report.seconds == state_of(store, run).seconds
    told = in_seconds(29.2)
    assert told == "29.2 s"
    timed = campaign_report.model_copy(update={"seconds": 29.2})
    assert told in as_markdown(timed)
    assert told in as_html(timed)


def test_one_task_and_one_candidate_are_told_as_one(store: KernelStore) -> None:
    campaign_report = _report(store)
    one = campaign_report.tasks[0].model_copy(update={"tried": 1})
    alone = campaign_report.model_copy(update={"tasks": (one,)})
    text = as_markdown(alone)
    assert "1 candidate for 1 task in" in text
    assert not re.search(r"\b1 (of 1 )?(tasks|candidates)\b", text)


@pytest.mark.parametrize("state", ["running", "paused", "interrupted"])
def test_a_verdict_stands_beside_its_figures_and_never_before_the_end(
    store: KernelStore, state: str
) -> None:
    campaign_report = _report(store)
    slower = [t.model_copy(update={"gain": GAIN}) for t in campaign_report.tasks[:1]]
    failed = [
        t.model_copy(update={"champion": None, "gain": None}) for t in campaign_report.tasks[1:]
    ]
    whole, other = campaign_report.functions
    found = campaign_report.model_copy(
        update={
            "state": state,
            "tasks": (*slower, *failed),
            "functions": (
                whole.model_copy(update={"gain": GAIN}),
                other.model_copy(update={"gain": None}),
            ),
        }
    )
    is_over = state == "interrupted"
    assert [found.stays_with_mlx(f) for f in found.functions] == [
        "MLX is best here" if is_over else "open",
        "open",
    ]
    assert len(found.even) == is_over
    for text in (as_html(found), as_markdown(found)):
        assert ("MLX is best" in text) == is_over
        assert "What is open" in text


def test_reports_and_views_let_the_database_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        night(store, ScriptedJudge(), spec_in(tmp_path), resumes=False).run(
            capture_subjects(three_subjects())
        )
        run = store.campaigns()[0]
        # Either reads whole trials, of which a night may have 100,000.
        for name in ("history", "show"):
            owner = next(kind for kind in KernelStore.__mro__ if name in vars(kind))
            monkeypatch.delattr(owner, name)
        report, live = report_of(store, run), StatusReader(store, run).look()
    assert report.tried == sum(task.tried for task in live.tasks) > 0
    assert [t.champion for t in report.tasks] == [t.champion for t in live.tasks]
