"""What a worker survives, and what it cannot reach."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.device import SECRET_VARIABLE, MisbehavingDevice, Misdeed
from kernelwright.evaluator.stages.trial import _of_reply
from kernelwright.evaluator.worker.process import Limits, Worker, WorkerLost
from kernelwright.evaluator.worker.service import Compile, Open, Run
from kernelwright.evaluator.worker.start import renew
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor

_MEMORY = 1 << 31
_ONES = np.ones(4, np.float32)


def _program() -> BoundProgram:
    kernel = Kernel(
        name="copy", inputs=("x",), outputs=("y",), source="", grid=(4, 1, 1), threadgroup=(4, 1, 1)
    )
    program = Program(
        inputs=(Tensor(name="x", dtype=Dtype.FLOAT32, shape=(4,)),),
        outputs=(Tensor(name="y", dtype=Dtype.FLOAT32, shape=(4,)),),
        kernels=(kernel,),
    )
    return program.bind((TensorType((4,), Dtype.FLOAT32),))


def _start() -> Worker:
    return Worker("kernelwright.evaluator.worker.service", Limits(_MEMORY))


def _run(worker: Worker, misdeed: Misdeed, target: str = "", timeout_s: float = 10) -> Reply:
    worker.call(Open(MisbehavingDevice(misdeed, target)), 30)
    worker.call(Compile("k", _program()), 30)
    return worker.call(Run("k", (_ONES,), RunOptions()), timeout_s)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One worker for all that leaves it alive."""
    worker = _start()
    yield worker
    worker.close()


def test_an_honest_run_returns_its_outputs(worker: Worker) -> None:
    reply = _run(worker, Misdeed.NONE)
    np.testing.assert_array_equal(reply.arrays[0], np.zeros(4, np.float32))


def test_a_request_of_another_program_than_that_on_disk_is_not_the_kernels_fault(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade while a program runs moves the classes that it sends."""
    moved = ModuleType("kernelwright_moved")
    request = type("Request", (), {"__module__": moved.__name__})
    moved.Request = request  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, moved.__name__, moved)
    reply = worker.call(request(), 30)
    assert reply.failure == "request"
    with pytest.raises(DeviceError, match=r"No module named .*upgraded while it ran; start"):
        _of_reply(reply)
    np.testing.assert_array_equal(_run(worker, Misdeed.NONE).arrays[0], np.zeros(4, np.float32))


def test_a_worker_cannot_write_outside_its_scratch_folder(worker: Worker, tmp_path: Path) -> None:
    if "writes" not in worker.confinement:
        pytest.skip("this machine's kernel has no Landlock")
    reply = _run(worker, Misdeed.WRITE_FILE, str(tmp_path / "trace"))
    assert not reply.arrays[0].any()
    assert not (tmp_path / "trace").exists()


def test_a_worker_has_no_network(worker: Worker) -> None:
    if "network" not in worker.confinement:
        pytest.skip("this machine allows no network namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        reply = _run(worker, Misdeed.CONNECT, f"127.0.0.1:{server.getsockname()[1]}")
    assert not reply.arrays[0].any()


def _held(worker: Worker, *names: str) -> None:
    if missing := [name for name in names if name not in worker.confinement]:
        pytest.skip(f"this machine does not confine {', '.join(missing)}")


@pytest.mark.parametrize("misdeed", [Misdeed.READ_FILE, Misdeed.LIST_FOLDER])
def test_a_worker_reads_nothing_of_the_users(
    worker: Worker, tmp_path: Path, misdeed: Misdeed
) -> None:
    _held(worker, "reads")
    (tmp_path / "notes").write_text("private")
    target = tmp_path / "notes" if misdeed is Misdeed.READ_FILE else tmp_path
    assert not _run(worker, misdeed, str(target)).arrays[0].any()


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/1/environ", "/proc/self/environ"])
def test_a_worker_reads_nothing_of_the_machines(worker: Worker, path: str) -> None:
    _held(worker, "reads")
    assert not _run(worker, Misdeed.READ_FILE, path).arrays[0].any()


def test_a_worker_reads_its_own_packages(worker: Worker) -> None:
    assert _run(worker, Misdeed.READ_FILE, np.__file__).arrays[0].all()


@pytest.mark.parametrize("misdeed", [Misdeed.SIGNAL, Misdeed.TRACE])
def test_a_worker_reaches_no_other_process(worker: Worker, misdeed: Misdeed) -> None:
    _held(worker, "processes", "calls")
    for target in (os.getpid(), worker.process, 1):
        assert not _run(worker, misdeed, str(target)).arrays[0].any()


def test_a_worker_executes_nothing_of_the_users(worker: Worker, tmp_path: Path) -> None:
    _held(worker, "reads")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert not _run(worker, Misdeed.EXECUTE, str(script)).arrays[0].any()


def test_a_worker_makes_no_socket(worker: Worker) -> None:
    _held(worker, "calls")
    assert not _run(worker, Misdeed.MAKE_SOCKET).arrays[0].any()


def test_nothing_that_a_candidate_did_is_there_for_the_next() -> None:
    worker = _start()
    try:
        _held(worker, "succession")
        worker.opening = Open(MisbehavingDevice(Misdeed.LEAVE_TRACES))
        _run(worker, Misdeed.LEAVE_TRACES)
        assert _run(worker, Misdeed.FIND_TRACES).arrays[0].all()
        assert renew(worker)
        assert not _run(worker, Misdeed.FIND_TRACES).arrays[0].any()
    finally:
        worker.close()


def test_a_worker_without_succession_is_replaced() -> None:
    worker = _start()
    worker.confinement = ("memory", "files")
    assert not renew(worker)
    assert not worker.is_alive


def test_a_worker_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "sk-secret")
    worker = _start()
    try:
        assert not _run(worker, Misdeed.READ_KEY).arrays[0].any()
    finally:
        worker.close()


def test_a_runaway_allocation_is_a_failure_of_memory(worker: Worker) -> None:
    assert _run(worker, Misdeed.ALLOCATE).failure == "memory"


@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        (Misdeed.ABORT, "SIGABRT"),
        (Misdeed.SEGFAULT, "SIGSEGV"),
        (Misdeed.EXIT, "code 0"),
        (Misdeed.HANG, "no answer within 0.3 s"),
    ],
)
def test_a_lost_worker_says_how_it_died(misdeed: Misdeed, words: str) -> None:
    worker = _start()
    with pytest.raises(WorkerLost, match=words):
        _run(worker, misdeed, timeout_s=0.3 if misdeed is Misdeed.HANG else 10)
    assert not worker.is_alive


def test_a_forged_reply_is_a_crash_and_never_runs_code() -> None:
    worker = _start()
    with pytest.raises(WorkerLost) as caught:
        _run(worker, Misdeed.FORGE)
    assert caught.value.loss == "crash"


def test_an_unknown_device_is_named(worker: Worker) -> None:
    reply = worker.call(Open("abacus"), 10)
    assert (reply.failure, "abacus" in str(reply.header["message"])) == ("device", True)
