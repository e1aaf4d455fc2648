"""How a GPU's worker is confined: by all that its driver puts up with."""

from collections.abc import Iterator

import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.worker import start as start_module
from kernelwright.evaluator.worker.process import Limits, Means, Worker
from kernelwright.evaluator.worker.service import Open
from kernelwright.metal.device.base import DeviceInfo

INFO = DeviceInfo(name="cuda", chip="any", runtime="any", measures_time=True)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Stands for whatever worker is opened."""
    started = Worker("kernelwright.evaluator.worker.service", Limits(1 << 31, drives_gpu=True))
    yield started
    started.close()


def test_a_driver_keeps_its_memory_and_loses_everything_else(worker: Worker) -> None:
    assert "memory" not in worker.confinement
    assert "files" in worker.confinement


@pytest.mark.parametrize(
    ("tolerated", "tries"), [((), [2, 1, 0, 0]), (("writes",), [2, 1, 1]), (None, [2, 1, 0])]
)
def test_what_a_driver_does_not_put_up_with_is_given_up_once(
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
    tolerated: tuple[Means, ...] | None,
    tries: list[int],
) -> None:
    seen: list[int] = []

    def start(request: Open, limits: Limits) -> tuple[Worker, DeviceInfo]:
        seen.append(len(limits.means))
        assert limits.drives_gpu
        if tolerated is None or len(limits.means) > len(tolerated):
            raise DeviceError(f"no driver with {len(limits.means)}")
        return worker, INFO

    monkeypatch.setattr(start_module, "_open", start)
    monkeypatch.setattr(start_module, "_rungs", {})
    if tolerated is None:
        with pytest.raises(DeviceError, match="no driver with 0"):
            start_module.open_worker("cuda", 1 << 31)
    else:
        for _ in range(2):
            assert start_module.open_worker("cuda", 1 << 31) == (worker, INFO)
    assert seen == tries
