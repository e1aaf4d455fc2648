"""Gains that a GPU measured: every page tells the same, and a prediction for another chip apart."""

import io
import json
import re
from dataclasses import dataclass

import pytest
from rich.console import Console
from typer.testing import CliRunner

from kernelwright.campaign import Engine, SearchReport, SearchSpec, capture_subjects
from kernelwright.campaign.report.campaign_page import as_html, as_markdown
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.champion_list import CandidatePage, RankedChampion
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.evaluator.evaluation import Samples, Speedup
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.service.commands import app
from kernelwright.service.console import THEME, result_console
from kernelwright.service.view.figure import MLX_IS_BEST
from kernelwright.service.view.summary import print_search_summary
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team

_GPU = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="1", measures_time=True)
_RATIOS = {"norm": (3.4567, "fast"), "softmax": (0.9123, "compile")}


class MeasuringJudge(ScriptedJudge):
    """Tells of a GPU that times what is right: `norm` gains over mx.fast, `softmax` does not."""

    @property
    def info(self) -> DeviceInfo:
        return _GPU

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        return _timed(task, super().evaluate(task, program))

    def confirm(self, task: Task, program: Program) -> Evaluation:
        return _timed(task, super().confirm(task, program))


def _timed(task: Task, found: Evaluation) -> Evaluation:
    told = found.model_copy(update={"device": _GPU})
    if found.status is not Status.CORRECT:
        return told
    ratio, baseline = _RATIOS[task.name]
    assert found.predicted_us is not None
    samples = Samples(arm="candidate", nanoseconds=(found.predicted_us * 1e3,) * 3)
    return told.model_copy(
        update={
            "status": Status.PROMOTED if ratio > 1 else Status.CORRECT,
            "measured_us": found.predicted_us,
            "predicted_us": None,
            "samples": (samples,),
            "speedups": (_speedup("eager", ratio * 1.5), _speedup(baseline, ratio)),
        }
    )


def _speedup(baseline: str, ratio: float) -> Speedup:
    return Speedup(
        baseline=baseline,
        ratio=ratio,
        lower=ratio * 0.97,
        upper=ratio * 1.04,
        confidence=0.95,
        kind="measured",
    )


@dataclass(frozen=True)
class Measured:
    """A store of measured champions and what the search said."""

    url: str
    report: SearchReport


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    url = str(tmp_path_factory.mktemp("measured") / "kernels.db")
    with KernelStore(url) as store:
        engine = Engine(store, SearchSpec(device="cuda", jobs=1), team(), MeasuringJudge)
        return Measured(url, engine.run(capture_subjects(subjects())))


def test_pages_agree_on_each_measured_gain_to_the_digit(measured: Measured) -> None:
    best = [
        RankedChampion.model_validate(row) for row in json.loads(_run(measured, "best", "--json"))
    ]
    gains = {c.candidate_id: c.gain for c in best}
    assert gains == {t.champion_id: t.gain for t in measured.report.tasks if t.champion_id}
    assert len(gains) == 1
    campaign_report = CampaignReport.model_validate_json(_run(measured, "report", "--json"))
    assert {t.task.id: t.gain for t in campaign_report.tasks} == {
        t.task_id: t.gain for t in measured.report.tasks
    }
    assert {f.gain for f in campaign_report.functions} == {
        f.gain for f in measured.report.functions
    }
    texts = {
        "summary": _summary(measured.report),
        "best": _run(measured, "best"),
        "markdown": as_markdown(campaign_report),
        "html": as_html(campaign_report),
    }
    for id_, gain in gains.items():
        assert (gain.kind, gain.chip) == ("measured", "NVIDIA H200")
        shown = CandidatePage.model_validate_json(_run(measured, "show", id_, "--json"))
        assert shown.gain == gain
        assert gain.with_interval in _run(measured, "show", id_)
        for page, text in texts.items():
            assert gain.mlx_time in text, page
            assert gain.kernel_time in text, page
            if gain.beats_mlx:
                assert gain.with_interval in text, page


def test_a_measured_loss_is_mlxs_everywhere(measured: Measured) -> None:
    (lost,) = (t for t in measured.report.tasks if t.name == "softmax")
    assert lost.gain is not None
    assert not lost.gain.beats_mlx
    assert _RATIOS["softmax"][0] == lost.gain.ratio
    assert (lost.gain.baseline, lost.gain.times) == ("mx.compile", "0.91×")
    assert lost.champion_id is None
    (line,) = (x for x in _summary(measured.report).splitlines() if "softmax" in x)
    for words in (MLX_IS_BEST, lost.gain.mlx_time, lost.gain.kernel_time):
        assert words in line
    text = _run(measured, "report")
    even = text.partition("What did not get faster: MLX is best")[2].partition("##")[0]
    assert "softmax" in even
    assert lost.gain.mlx_time in even
    assert "What is open" not in text


def test_a_chip_that_was_not_measured_is_not_told_the_measured_times(measured: Measured) -> None:
    for row in json.loads(_run(measured, "best", "--json", "--chip", "h200")):
        assert row["gain"]["kind"] == "measured"
    (won,) = json.loads(_run(measured, "best", "--json", "--chip", "m4-max"))
    # Nothing was counted here, so nothing can be predicted for another chip.
    assert won["gain"]["chip"] == "NVIDIA H200"


def _summary(report: SearchReport) -> str:
    wide = Console(theme=THEME, file=io.StringIO(), width=120, highlight=False)
    print_search_summary(wide, report)
    return str(wide.file.getvalue())  # type: ignore[attr-defined]


def _run(measured: Measured, *arguments: str) -> str:
    result_console.cache_clear()
    line = [*arguments, "--store", measured.url]
    result = CliRunner().invoke(app, line, env={"COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
