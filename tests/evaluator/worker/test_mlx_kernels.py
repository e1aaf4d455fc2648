"""MLX's own compiled kernels are made once on a machine and lent to every worker."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator.attacks.corpus import task_of
from kernelwright.evaluator.speed.measuring import BASELINES, CompileBaselines
from kernelwright.evaluator.worker import cache, mlx_kernels
from kernelwright.evaluator.worker.mlx_kernel_sweep import sweep_kernels
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
        self.asked: list[tuple[str, ...]] = []
        self.lacks: tuple[str, ...] = ()
        """Baselines that MLX cannot compute."""

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
        made.asked.append(request.names)
        if set(request.names) <= set(made.lacks):
            return Reply({"failure": "device", "message": "none"})
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
    each = [(name,) for name in BASELINES]
    assert sorted(machine.asked) == sorted(each), "each is compiled once, for all others"
    assert own.read_text() == "its own"
    assert (borrower.mlx_folder / NAMES[1]).read_text() == f"{NAMES[1]} of {GRAPH.fingerprint}"


def test_a_baseline_that_mlx_cannot_compute_leaves_the_others(machine: Machine) -> None:
    machine.lacks = ("fast",)
    borrower, _ = machine.open()
    kernels = MlxKernels(machine.open, INFO)
    kernels.start(GRAPH)
    kernels.lend(GRAPH, borrower)
    kernels.close()
    assert (borrower.mlx_folder / NAMES[0]).is_file()


def test_a_graph_that_a_gpu_may_not_hold_three_times_is_compiled_in_one_worker(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlx_kernels, "_MOST_BYTES_APART", 1)
    kernels = MlxKernels(machine.open, INFO)
    kernels.start(GRAPH)
    kernels.lend(GRAPH, machine.open()[0])
    kernels.close()
    assert machine.asked == [BASELINES]


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


def _made(folder: Path, graph: str, names: tuple[str, ...], days: float) -> None:
    """Lay down kernels of 100 bytes that a graph was last lent so many days ago."""
    for name in names:
        place = folder / "kernels" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes(100))
    (folder / f"{graph}.json").write_text(json.dumps(names))
    (folder / f"{graph}.lock").touch()
    for path in (*folder.rglob("*.ptx"), folder / f"{graph}.json", folder / f"{graph}.lock"):
        os.utime(path, times=(time.time() - days * 86400,) * 2)


@pytest.mark.parametrize(
    ("days", "most_bytes", "left"),
    [
        ((2, 3, 5), 1000, {"a", "b", "c"}),
        ((2, 3, 31), 1000, {"a", "b"}),
        ((2, 3, 5), 350, {"a", "b"}),
        ((2, 3, 5), 250, {"a"}),
        ((0, 0.5, 0.9), 100, {"a", "b", "c"}),
    ],
)
def test_kernels_that_were_lent_longest_ago_are_forgotten(
    tmp_path: Path, days: tuple[float, float, float], most_bytes: int, left: set[str]
) -> None:
    # Each has a kernel of its own and shares one; the last is of another version of MLX.
    folders = {"a": tmp_path / "new", "b": tmp_path / "new", "c": tmp_path / "old"}
    for graph, ago in reversed(list(zip(folders, days, strict=True))):
        _made(folders[graph], graph, (f"own/{graph}.ptx", "shared.ptx"), ago)
    sweep_kernels(tmp_path, most_bytes=most_bytes)
    for graph, folder in folders.items():
        is_left = graph in left
        assert (folder / f"{graph}.json").exists() is is_left
        assert (folder / "kernels" / "own" / f"{graph}.ptx").exists() is is_left
        assert (folder / f"{graph}.lock").exists() is is_left
    assert (tmp_path / "new" / "kernels" / "shared.ptx").exists()


def test_what_is_lent_counts_as_used_and_a_compilation_sweeps(
    machine: Machine, tmp_path: Path
) -> None:
    kernels = MlxKernels(machine.open, INFO)
    kernels.start(GRAPH)
    borrower, _ = machine.open()
    kernels.lend(GRAPH, borrower)
    (listing,) = tmp_path.glob("mlx-kernels/*/*.json")
    long_ago = time.time() - 40 * 86400
    os.utime(listing, times=(long_ago, long_ago))
    kernels.lend(GRAPH, borrower)
    assert listing.stat().st_mtime > long_ago + 86400
    os.utime(listing, times=(long_ago, long_ago))
    kernels.start(task_of("layer_norm").graph)
    kernels.lend(task_of("layer_norm").graph, borrower)
    kernels.close()
    assert not listing.exists()
