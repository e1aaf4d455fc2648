"""A campaign goes on after a cap, an update or a fault, and does no step twice."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.campaign import Engine, capture_subjects
from kernelwright.campaign.event import CampaignEnded
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.larger_caps import LargerCaps
from kernelwright.campaign.history.ledger import abandoned
from kernelwright.campaign.history.resuming import to_resume
from kernelwright.campaign.history.run_state import state_of
from kernelwright.campaign.report.search_report import SearchReport
from kernelwright.campaign.spec.campaign_spec import CampaignSpec
from kernelwright.errors import InputError, UsageError
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.service.view.progress import progress_view
from kernelwright.store import KernelStore
from tests.campaign.mortal_night import night, spec_in, three_subjects
from tests.campaign.scripted import ScriptedCoder, ScriptedJudge, team


@dataclass
class FaultyJudge(ScriptedJudge):
    """Fails itself at some scripts, screening or confirming."""

    faulty: frozenset[str] = frozenset()
    faulty_at_confirmation: frozenset[str] = frozenset()

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        if program.kernels[0].source in self.faulty:
            raise ValueError("operands could not be broadcast together")
        return super().evaluate(task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        if program.kernels[0].source in self.faulty_at_confirmation:
            raise ValueError("operands could not be broadcast together")
        return super().confirm(task, program)


def run(store: KernelStore, judge: ScriptedJudge, spec: CampaignSpec) -> SearchReport:
    return night(store, judge, spec, resumes=False).run(capture_subjects(three_subjects()))


def test_an_exception_at_one_candidate_costs_that_candidate(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        judge = FaultyJudge(faulty=frozenset({"correct 3"}))
        report = run(store, judge, spec_in(tmp_path))
        found = {t.idea: t for t in store.history(campaign=report.campaign_id, limit=99)}
        assert found["correct 3"].status is Status.CRASHED
        assert "ValueError: operands could not be broadcast" in found["correct 3"].summary
        assert found["correct 2"].status is Status.CORRECT
        assert all(task.champion_id for task in report.tasks)
        assert store.campaigns()[0].state == "finished"


def test_an_exception_at_a_confirmation_leaves_the_task_to_the_next_best(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        judge = FaultyJudge(faulty_at_confirmation=frozenset({"correct 2"}))
        report = run(store, judge, spec_in(tmp_path))
        champions = {store.show(task.champion_id or "").candidate.idea for task in report.tasks}
        assert champions == {"correct 3"}


def test_a_strategy_that_fails_for_a_task_leaves_the_others(tmp_path: Path) -> None:
    class Failing(ScriptedCoder):
        def write(
            self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
        ) -> Sequence[Proposal]:
            if task.name == "norm":
                raise ValueError("no layout for it")
            return super().write(task, device, history, count=count)

    with KernelStore(str(tmp_path / "kernels.db")) as store:
        spec = spec_in(tmp_path)
        engine = Engine(store, spec, team(Failing()), ScriptedJudge)
        report = engine.run(capture_subjects(three_subjects()))
        champions = {task.name: task.champion_id for task in report.tasks}
        reasons = {task.name: task.reason for task in report.tasks}
    assert champions["norm"] is None
    assert "ValueError: no layout for it" in reasons["norm"]
    assert champions["softmax"]
    assert champions["gelu"]


def test_a_cap_leaves_a_campaign_that_a_larger_one_resumes(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        first = ScriptedJudge()
        spec = spec_in(tmp_path).model_copy(update={"evaluations": 5})
        report = run(store, first, spec)
        capped = store.campaigns()[0]
        assert (capped.state, report.ended.capped) == ("capped", True)
        assert state_of(store, capped).state == "capped"
        with pytest.raises(InputError, match=r"ended at a cap; give a larger .* --evaluations 10"):
            to_resume(store, capped.id[:8])
        with pytest.raises(UsageError, match=r"expected --evaluations above the 5 .* found 5"):
            to_resume(store, capped.id[:8], LargerCaps(evaluations=5))
        found = to_resume(store, capped.id[:8], LargerCaps(evaluations=500))
        second = ScriptedJudge()
        engine = Engine(
            store,
            found.spec,
            team(),
            lambda: second,
            RunSettings(resumes=True, root_id=found.root_id),
        )
        ended = engine.run(capture_subjects(three_subjects()))
        assert ended.ended.reason == "every task is done"
        assert not set(first.asked) & set(second.asked)
        assert [r.state for r in store.runs(capped.root_id)] == ["capped", "finished"]


def test_a_cap_that_is_reached_with_nothing_left_to_try_ends_nothing(
    tmp_path: Path,
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        spec = spec_in(tmp_path).model_copy(update={"candidates_per_task": 1, "evaluations": 3})
        report = run(store, ScriptedJudge(), spec)
        assert report.evaluated == 3
        assert (report.ended.capped, report.ended.early_words) == (False, "")
        assert report.ended.reason == "every task is done"
        assert state_of(store, store.campaigns()[0]).state == "finished"


def test_the_same_capped_search_begins_anew_and_one_with_other_caps_goes_on(
    tmp_path: Path,
) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        spec = spec_in(tmp_path).model_copy(update={"evaluations": 5})
        for evaluations in (5, 5, 50):
            run(store, ScriptedJudge(), spec.model_copy(update={"evaluations": evaluations}))
        last, middle, first = store.campaigns()
    assert first.root_id == first.id
    assert middle.root_id == middle.id
    assert last.root_id == middle.id


@pytest.mark.parametrize("change", ["a field is new", "a field is gone"])
def test_a_night_of_another_version_is_resumed(tmp_path: Path, change: str) -> None:
    url = tmp_path / "kernels.db"
    with KernelStore(str(url)) as store:
        spec = spec_in(tmp_path).model_copy(update={"evaluations": 7})
        first = ScriptedJudge()
        run(store, first, spec)
        before = store.campaigns()[0]
    written = json.loads(before.spec)
    if change == "a field is new":
        del written["calls_at_once"]
    else:
        written["retired_setting"] = 3
        written["functions"][0]["retired_too"] = "x"
    _rewrite(url, "UPDATE campaign SET state = 'interrupted', spec = ?", json.dumps(written))
    with KernelStore(str(url)) as store:
        known = {t.idea for t in store.history(limit=99)}
        assert known
        found = to_resume(store, before.id[:8])
        assert found.root_id == before.root_id
        judge = ScriptedJudge()
        plain = spec.model_copy(update={"evaluations": None})
        report = run(store, judge, plain)
        assert report.campaign_id == before.id
        assert abandoned(store, store.campaigns()[0].id) == [before.id]
        assert len(judge.asked) == len(set(judge.asked))
        tried = {t.candidate_id for t in store.history(limit=99)}
        screened = store.statistics().rows["evaluation"] - len([*first.confirmed, *judge.confirmed])
        assert screened == len(tried), "nothing is evaluated twice"


def test_any_run_of_a_campaign_names_it(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        spec = spec_in(tmp_path)
        runs = []
        for evaluations in (3, 6, 9):
            run(store, ScriptedJudge(), spec.model_copy(update={"evaluations": evaluations}))
            runs.append(store.campaigns()[0])
        assert {r.root_id for r in runs} == {runs[0].id}
        found = to_resume(store, runs[0].id[:8], LargerCaps(evaluations=100))
        assert found.root_id == runs[0].id
        assert CampaignEnded.__name__ in {e.kind for e in store.events(runs[1].id)}


def test_a_search_that_goes_on_says_so_under_the_id_that_people_know(tmp_path: Path) -> None:
    said = StringIO()
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        for evaluations in (3, 6):
            spec = spec_in(tmp_path).model_copy(update={"evaluations": evaluations})
            with progress_view(Console(file=said), 3, quiet=False) as view:
                settings = RunSettings(listen=view.show)
                engine = Engine(store, spec, team(), ScriptedJudge, settings)
                engine.run(capture_subjects(three_subjects()))
        last, first = store.campaigns()
        began = first.started_at.astimezone()
    assert last.id != first.id
    heads = [line.split()[1] for line in said.getvalue().splitlines() if "search " in line]
    assert heads == [first.id[:8]] * 2
    assert said.getvalue().count(f"goes on from its run of {began:%Y-%m-%d %H:%M}") == 1


def _rewrite(path: Path, statement: str, *values: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()
