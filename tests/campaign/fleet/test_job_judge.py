"""What a worker's judges have in common, and how many of them a device bears."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.campaign.fleet import worker
from kernelwright.campaign.judging import job_judge, judges
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.store import KernelStore
from tests.campaign.fleet.scripted_worker import ScriptedJobJudge


def test_judges_of_one_worker_draw_each_tasks_cases_once(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[object] = []

    def opened(device: str, config: object, *, suites: object, turn: object) -> SimpleNamespace:
        caches.append(suites)
        return SimpleNamespace()

    monkeypatch.setattr(job_judge, "Evaluator", opened)
    make = judges.job_judges_on("simulator")
    assert make() is not make()
    assert caches[0] is caches[1]


@pytest.mark.parametrize(("device", "jobs"), [("simulator", 4), ("cuda", 4), ("metal", 1)])
def test_a_gpus_worker_prepares_candidates_while_one_is_timed(
    device: DeviceName, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = DeviceInfo(name=device, chip="c", runtime="1", measures_time=device != "simulator")
    monkeypatch.setattr(worker, "prepare_queue", lambda url: None)
    store: KernelStore = SimpleNamespace(url="")  # type: ignore[assignment]
    made = worker.Worker(store, lambda: ScriptedJobJudge(Path(), info), jobs=4)
    assert made.listed.jobs == jobs
