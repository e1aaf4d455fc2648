"""A slice of the reliability sweep, and a morning after ten deaths."""

import re
import subprocess
import sys
from pathlib import Path

from kernelwright.campaign.history.resuming import current, nights
from kernelwright.campaign.report.campaign_report import CampaignReport
from kernelwright.campaign.report.report_query import report_of
from kernelwright.store import KernelStore

_ROOT = Path(__file__).parents[3]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=_ROOT, capture_output=True, text=True, check=False
    )


def test_kills_and_faults_break_no_promise() -> None:
    amounts = ("--kills=10", "--faults=20", "--real-kills=0", "--real-faults=0", "--jobs=1")
    done = run("benchmarks.reliability", "--invent", *amounts)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^\| (kills|faults) \|.*\| (\d+) \| (\d+) \|$", done.stdout, re.MULTILINE)
    assert rows == [("kills", "0", "0"), ("faults", "0", "0")]


def test_a_campaign_that_died_ten_times_reports_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    done = run("tests.campaign.ten_lives", str(tmp_path))
    assert done.stdout.split(" ", 1) == ["10", "[]\n"], done.stdout + done.stderr
    killed, calm = campaign_report(tmp_path / "killed-1"), campaign_report(tmp_path / "calm")
    assert (killed.state, killed.reason) == (calm.state, calm.reason)
    assert (killed.runs, calm.runs) == (11, 1)
    assert table(killed) == table(calm)
    assert len(table(calm)) == 3
    assert [(f.status, f.count) for f in killed.failures] == [
        (f.status, f.count) for f in calm.failures
    ]


def campaign_report(folder: Path) -> CampaignReport:
    with KernelStore(str(folder / "kernels.db")) as store:
        return report_of(store, current(nights(store))[0])


def table(report: CampaignReport) -> list[tuple[object, ...]]:
    """Read what a person reads: every task with its tries, its champion and its gain."""
    return sorted(
        (t.task.name, t.tried, t.right, t.champion.candidate_id if t.champion else "",
         t.gain.words if t.gain else "")
        for t in report.tasks
    )  # fmt: skip
