"""What a candidate's worker does for it, without the process around."""

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.worker.service import (
    CandidateService,
    Compile,
    CompileAhead,
    Forget,
    Open,
)
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Device, Executable
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.device.simulator.priming import prime
from kernelwright.metal.diagnostic import CompileError, Diagnostic, LaunchError
from kernelwright.metal.kernel import BoundProgram

PROGRAM = bases()["layer_norm"].program.bind(task_of("layer_norm").graph.input_types)


@dataclass
class SlowCompiler:
    """Compiles two programs at a time, and refuses the copy of the honest one."""

    info: DeviceInfo = field(default_factory=lambda: SimulatorDevice().info)
    compiled: list[BoundProgram] = field(default_factory=list)
    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=120))

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> Executable:
        """Wait for the other."""
        self.compiled.append(program)
        self.both.wait()
        if program is not PROGRAM:
            raise CompileError((Diagnostic(message="no such name"),))
        return SimulatorDevice().compile(program)


def test_programs_compile_at_once_and_fail_when_they_are_asked_for() -> None:
    device, service = SlowCompiler(), CandidateService()
    service.answer(Open(device))
    good, bad = Compile("good", PROGRAM), Compile("bad", PROGRAM.model_copy())
    assert not service.answer(CompileAhead((good, bad))).failure
    assert not service.answer(good).failure
    assert service.answer(bad).failure == "compile"
    assert len(device.compiled) == 2
    service.answer(Forget())
    assert not service.answer(CompileAhead((good, bad))).failure
    assert len(device.compiled) == 4, "the next candidate finds nothing of the last one's"


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_simulator_is_tried_where_its_shared_cache_may_lack_something(
    is_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Device] = []
    monkeypatch.setattr("kernelwright.evaluator.worker.service.warm_up", tried.append)
    prime(("safe",))
    load_runtime()
    if not is_complete:
        monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    assert not CandidateService().answer(Open("simulator")).failure
    assert bool(tried) != is_complete


class Full(SlowCompiler):
    """Has no memory left for a kernel."""

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> Executable:
        """Say what CUDA says."""
        raise LaunchError("kernel k did not run: cudaMallocAsync(&data, size, s): out of memory")


def test_a_device_whose_memory_others_hold_is_no_fault_of_a_candidate() -> None:
    service = CandidateService()
    service.answer(Open(Full()))
    found = service.answer(Compile("good", PROGRAM))
    assert found.failure == "device"
    assert "memory is used up" in str(found.header["message"])


def test_a_worker_imports_neither_the_drawing_of_inputs_nor_the_oracle() -> None:
    code = (
        "import sys, kernelwright.evaluator.worker.service\n"
        "print([m for m in sys.modules if 'evaluator.oracle' in m or m.endswith('inputs.case')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
