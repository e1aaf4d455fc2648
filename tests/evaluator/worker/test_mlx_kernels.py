"""MLX's own compiled kernels are made once on a machine and lent to every worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator.attacks.corpus import task_of
from kernelwright.evaluator.speed.measuring import CompileBaselines
from kernelwright.evaluator.worker import cache
from kernelwright.evaluator.worker.mlx_kernels import MlxKernels
from kernelwright.evaluator.worker.process import Limits, Worker, WorkerLost
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.metal.device.base import DeviceInfo

INFO = DeviceInfo(name="cuda", chip="NVIDIA Any/1", runtime="any", measures_time=True)
GRAPH = task_of("softmax").graph
NAMES = ("softmax.ptx", f"{'n' * 245}/rest.ptx")


class Machine:
    """Starts real workers, in which MLX would compile these files."""

    def __init__(self) -> None:
        self.started: list[Worker] = []
        self.fails = False

    def open(self) -> tuple[Worker, DeviceInfo]:
        limits = Limits(1 << 31, drives_gpu=True)
        self.started.append(Worker("kernelwright.evaluator.worker.service", limits))
        return self.started[-1], INFO


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    made = Machine()

    def call(worker: Worker, request: object, timeout_s: float) -> Reply:
        assert isinstance(request, CompileBaselines)
        if made.fails:
            raise WorkerLost("crash", "the driver has gone")
        for name in NAMES:
            place = worker.mlx_folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{name} of {request.graph.fingerprint}")
        return Reply({})

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(Worker, "call", call)
    yield made
    for worker in made.started:
        worker.close()


def test_what_one_worker_compiled_another_finds(machine: Machine) -> None:
    first, second = (MlxKernels(machine.open, INFO) for _ in range(2))
    borrower, _ = machine.open()
    first.lend(GRAPH, borrower)
    assert not list(borrower.mlx_folder.rglob("*")), "nothing was begun"
    own = borrower.mlx_folder / NAMES[0]
    own.parent.mkdir()
    own.write_text("its own")
    for kernels in (first, second):
        kernels.start(GRAPH)
        kernels.start(GRAPH)
        kernels.lend(GRAPH, borrower)
        kernels.close()
    assert len(machine.started) == 2, "one compiles, for all others"
    assert own.read_text() == "its own"
    assert (borrower.mlx_folder / NAMES[1]).read_text() == f"{NAMES[1]} of {GRAPH.fingerprint}"


@pytest.mark.parametrize("is_cache_a_file", [False, True])
def test_what_cannot_be_compiled_or_kept_is_left_to_the_trial(
    machine: Machine, tmp_path: Path, is_cache_a_file: bool
) -> None:
    kernels = MlxKernels(machine.open, INFO)
    borrower, _ = machine.open()
    machine.fails = not is_cache_a_file
    if is_cache_a_file:
        (tmp_path / "mlx-kernels").write_text("in the way")
    kernels.start(GRAPH)
    kernels.lend(GRAPH, borrower)
    kernels.close()
    assert not borrower.mlx_folder.exists()
    assert not any(worker.is_alive for worker in machine.started[1:])
