"""Every page tells the same gain of the same kernel, to the digit, and none of one without it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.campaign import SearchReport
from kernelwright.campaign.planning.plan_summary import PlanOutline
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.champion_list import CandidatePage, RankedChampion
from kernelwright.service.commands import app

_FILE = """
import mlx.core as mx
import mlx.nn as nn
import kernelwright as kw

norm = nn.RMSNorm(64)


@kw.example("f32[32,64]", "f32[32,64]")
def residual(x, r):
    h = x + r
    return h, norm(h)


@kw.example("f32[32,64]")
def normed(x):
    return norm(x)


@kw.example("f32[32,64]", "f32[64,64]")
def block(x, w):
    h = mx.tanh(x) * mx.sigmoid(x) - mx.cumsum(x, axis=-1)
    y = h @ w
    return mx.softmax(y * 2, axis=-1) + x
"""


@dataclass(frozen=True)
class Searched:
    """A store, the file that was searched, and what `search --json` said."""

    store: str
    file: str
    folder: Path
    report: SearchReport


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    folder = tmp_path_factory.mktemp("numbers")
    file, store = folder / "numbers.py", str(folder / "kernels.db")
    file.write_text(_FILE)
    told = _run("search", str(file), "--candidates", "2", "-q", "--json", "--store", store)
    return Searched(store, str(file), folder, SearchReport.model_validate_json(told))


def test_every_page_agrees_on_each_gain_to_the_digit(searched: Searched) -> None:
    store = ("--store", searched.store)
    best = {c.candidate_id: c.gain for c in _champions(_run("best", "--json", *store))}
    campaign_report = CampaignReport.model_validate_json(_report(searched, "--json"))
    plans = _plans(searched)
    planned = {r.task_id: r.gain for plan in plans for r in plan.regions}
    texts = {
        "summary": _run("search", searched.file, "--candidates", "2", "-q", *store),
        "best": _run("best", *store),
        "report": _report(searched),
        "plan": _plan(searched),
    }
    gains = {task.champion_id: task.gain for task in searched.report.tasks}
    assert len(gains) >= 4
    assert gains == best
    for task in searched.report.tasks:
        id_, gain = str(task.champion_id), task.gain
        assert gain is not None
        assert planned[task.task_id] == gain
        assert next(t.gain for t in campaign_report.tasks if t.task.id == task.task_id) == gain
        shown = CandidatePage.model_validate_json(_run("show", id_, "--json", *store))
        assert shown.gain == gain
        for page, text in {**texts, "show": _run("show", id_, *store)}.items():
            lines = [line for line in text.splitlines() if id_[:8] in line or page == "show"]
            if gain.beats_mlx and page != "plan":
                assert gain.times in "\n".join(lines), page
            elif not gain.beats_mlx and page in ("summary", "best"):
                assert "MLX is best here" in lines[0]
            if page == "plan":
                assert (gain.times if gain.beats_mlx else "MLX best") in text


def test_functions_as_a_whole_have_one_gain_on_every_page(searched: Searched) -> None:
    campaign_report = CampaignReport.model_validate_json(_report(searched, "--json"))
    plans = _plans(searched)
    reported = {f.function: f.gain for f in searched.report.functions}
    assert reported == {f.function: f.gain for f in campaign_report.functions}
    assert reported == {plan.function: plan.gain for plan in plans}
    (whole,) = (f for f in searched.report.functions if f.function == "residual")
    (task,) = (t for t in searched.report.tasks if t.task_id in whole.task_ids)
    assert whole.gain == task.gain
    (cut,) = (f for f in searched.report.functions if f.function == "block")
    assert len(cut.task_ids) == 2
    assert cut.gain is not None
    parts = [t.gain for t in searched.report.tasks if t.task_id in cut.task_ids]
    assert all(p is not None and p.kernel_us is not None for p in parts)
    assert cut.gain.kernel_us > sum(p.kernel_us or 0 for p in parts if p)  # type: ignore[operator]


def test_exports_tell_the_gain_that_best_does(searched: Searched) -> None:
    for task in searched.report.tasks:
        assert task.gain is not None
        folder = searched.folder / str(task.champion_id)[:8]
        where = ("-o", str(folder), "--store", searched.store, "--force")
        _run("export", str(task.champion_id), *where)
        verification = (folder / "VERIFICATION.md").read_text()
        assert f"Speedup {task.gain.words}" in verification
        assert ("MLX is best here" in verification) == (not task.gain.beats_mlx)


def test_best_is_sorted_by_gain_and_what_mlx_does_best_is_last(searched: Searched) -> None:
    found = _champions(_run("best", "--json", "--store", searched.store))
    ratios = [c.gain.ratio for c in found]
    assert ratios == sorted(ratios, reverse=True)
    assert found[-1].task.name == "normed"
    assert not found[-1].beats_mlx
    (first,) = _champions(_run("best", "--json", "--limit", "1", "--store", searched.store))
    assert first == found[0]


def test_a_norm_of_mlx_is_compared_with_its_own_kernel_everywhere(searched: Searched) -> None:
    (task,) = (t for t in searched.report.tasks if t.name == "normed")
    assert task.gain is not None
    assert (task.gain.baseline, task.gain.beats_mlx) == ("mx.fast", False)
    (plan,) = _plans(searched, name=":normed")
    assert plan.regions[0].limit.baseline == "mx.fast"
    assert (plan.regions[0].mlx.launches, plan.traffic.planned_launches) == (1, 1)
    text = _report(searched)
    faster, _, even = text.partition("What cannot get faster: MLX is best")
    assert "normed" in even.partition("##")[0]
    assert "normed" not in faster.partition("What should get faster")[2]


@pytest.mark.parametrize("chip", ["m1", "m4-max", "m5", "h100", "h200"])
@pytest.mark.sampled(2)
def test_a_chip_changes_whose_time_every_page_predicts(searched: Searched, chip: str) -> None:
    store = ("--store", searched.store)
    best = {
        c.candidate_id: c.gain for c in _champions(_run("best", "--json", "--chip", chip, *store))
    }
    assert {gain.chip for gain in best.values()} == {chip}
    assert best != {t.champion_id: t.gain for t in searched.report.tasks}
    campaign_report = CampaignReport.model_validate_json(
        _report(searched, "--json", "--chip", chip)
    )
    assert {t.champion.candidate_id: t.gain for t in campaign_report.tasks if t.champion} == best
    plans = [
        PlanOutline.model_validate(p) for p in json.loads(_plan(searched, "--json", chip=chip))
    ]
    told = {r.task_id: r.gain for plan in plans for r in plan.regions}
    assert {g.ratio for g in told.values() if g} == {g.ratio for g in best.values()}
    for id_, gain in best.items():
        shown = CandidatePage.model_validate_json(
            _run("show", id_, "--json", "--chip", chip, *store)
        )
        assert shown.gain == gain


def test_a_search_for_a_chip_predicts_its_times(searched: Searched, tmp_path: Path) -> None:
    """The simulator tries its schedules: what leads may be another kernel, of another device."""
    other = str(tmp_path / "h200.db")
    _run("store", "backup", other, "--store", searched.store)
    for chip, device in (("h200", " for h200"), ("m4-pro", "")):
        again = _run(
            *("search", searched.file, "--candidates", "2", "-q", "--json", "--chip", chip),
            *("--store", other),
        )
        report = SearchReport.model_validate_json(again)
        assert report.device.chip.endswith(device)
        found = {t.champion_id: t.gain for t in report.tasks}
        assert {gain.chip for gain in found.values() if gain} == {chip}
        champions = _champions(_run("best", "--json", "--chip", chip, "--store", other))
        assert found.items() <= {c.candidate_id: c.gain for c in champions}.items()


def test_an_unknown_chip_is_one_sentence() -> None:
    result = CliRunner().invoke(app, ["best", "--chip", "m9"])
    assert result.exit_code != 0
    assert "no profile of a chip 'm9'; known are m1, m1-pro" in str(result.exception)


def _champions(text: str) -> list[RankedChampion]:
    return [RankedChampion.model_validate(row) for row in json.loads(text)]


def _report(searched: Searched, *options: str) -> str:
    run = searched.report.campaign_id
    return _run("report", run, *options, "--store", searched.store)


def _plans(searched: Searched, *, chip: str = "", name: str = "") -> list[PlanOutline]:
    told = json.loads(_plan(searched, "--json", chip=chip, name=name))
    return [PlanOutline.model_validate(row) for row in told]


def _plan(searched: Searched, *options: str, chip: str = "", name: str = "") -> str:
    more = ("--chip", chip) if chip else ()
    return _run("plan", f"{searched.file}{name}", *options, *more, "--store", searched.store)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)


def test_json_tells_both_times_and_one_name_of_each_baseline(searched: Searched) -> None:
    store = ("--store", searched.store)
    names = {"eager MLX", "mx.compile", "mx.fast"}
    for champion in json.loads(_run("best", "--json", *store)):
        gain = champion["gain"]
        assert gain["mlx_us"] == pytest.approx(gain["kernel_us"] * gain["ratio"])
        assert champion["gain"]["baseline"] in names
        page = json.loads(_run("show", champion["candidate_id"], "--json", *store))
        told = {
            speedup["baseline"]
            for known in page["evaluations"]
            for speedup in known["evaluation"]["speedups"]
        }
        assert told
        assert told <= names
