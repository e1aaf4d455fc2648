"""Plans of faults: read strictly, drawn alike, injected once; and Ctrl-C in a night that hangs."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelwright.agents.message import Prompt, Reply, Usage
from kernelwright.agents.providers.client import NO_RECEIPT, Limits, Receipt, ReplyMode, ReplyShape
from kernelwright.agents.providers.fault import Fault as ChatFault
from kernelwright.agents.providers.fault import FaultKind
from kernelwright.errors import InputError
from kernelwright.service.commands import app
from kernelwright.store import KernelStore
from kernelwright.store.clock import CLOCK
from kernelwright.testing.fault import (
    Draw,
    Fault,
    FaultPlan,
    Rehearsal,
    Sabotage,
    SabotagedClient,
    drawn,
    read_plan,
)

_ROOT = Path(__file__).parents[2]
_PLAN = """
[[faults]]
kind = "disk_full"
number = 7
lasts = 3

[draw]
seed = 5
count = 10
kinds = ["model_busy", "kill"]
"""


def test_a_plan_names_faults_and_draws_more(tmp_path: Path) -> None:
    plan = _read(tmp_path, _PLAN)
    first, *rest = plan.all
    assert first == Fault(kind="disk_full", at="write", number=7, lasts=3)
    assert {fault.kind for fault in rest} == {"model_busy", "kill"}
    assert rest == list(drawn(Draw(seed=5, count=10, kinds=("model_busy", "kill"))))
    assert rest != list(drawn(Draw(seed=6, count=10, kinds=("model_busy", "kill"))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[faults]]\nkind = "meteor"\nnumber = 1', r"faults 1 kind: input should be .*'meteor'"),
        ('[[faults]]\nkind = "kill"\nnumber = 0', r"faults 1 number: .*greater than.*found 0"),
        (
            '[[faults]]\nkind = "disk_full"\nat = "call"\nnumber = 1',
            "disk_full happens at write, not at call",
        ),
        ("[draw", r"plan.toml is no TOML"),
    ],
)
def test_a_wrong_plan_costs_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _read(tmp_path, text)


def test_a_fault_is_injected_once_however_often_a_campaign_dies(tmp_path: Path) -> None:
    memory = tmp_path / "plan.toml.injected"
    faults = [Fault(kind="driver_silent", at="evaluation", number=n) for n in (2, 3)]
    first = Sabotage(faults, memory)
    assert [len(first.at("evaluation")) for _ in range(2)] == [0, 1]
    # The process dies here; the next one counts from the beginning.
    second = Sabotage(faults, memory)
    assert [len(second.at("evaluation")) for _ in range(3)] == [0, 0, 1]
    assert len(memory.read_text().splitlines()) == 2


def test_a_clock_jumps_and_stamps_do_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CLOCK, "machine", CLOCK.machine)
    monkeypatch.setattr(CLOCK, "_last", CLOCK.now())
    before, shown = CLOCK.now(), CLOCK.machine()
    Sabotage([Fault(kind="clock_jumps", at="write", number=1, hours=-2)]).before_write()
    assert (shown - CLOCK.machine()).total_seconds() == pytest.approx(7200, abs=5)
    assert CLOCK.now() > before


class _Wire:
    """A model that always answers."""

    name, mode, streams = "test:model", ReplyMode.TOOL, False

    async def send(
        self,
        prompt: Prompt,
        shape: ReplyShape | None,
        limits: Limits,
        receipt: Receipt = NO_RECEIPT,
    ) -> Reply:
        return Reply(text="1234", stop="done", usage=Usage(input_tokens=9), model=self.name)

    async def close(self) -> None:
        """There is nothing to release."""


@pytest.mark.parametrize(
    ("kind", "fault", "waits"),
    [
        ("model_busy", FaultKind.BUSY, []),
        ("model_overloaded", FaultKind.BUSY, []),
        ("model_reset", FaultKind.DROPPED, []),
        ("model_stalls", FaultKind.DROPPED, [60.0]),
        ("reply_lost", FaultKind.DROPPED, []),
        ("network_down", FaultKind.UNREACHABLE, []),
    ],
)
def test_a_wire_fails_as_planned_and_then_no_more(
    kind: str, fault: FaultKind, waits: list[float]
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    plan = Fault.model_validate({"kind": kind, "number": 1})
    wire = SabotagedClient(_Wire(), Sabotage([plan]), sleep)
    with pytest.raises(ChatFault) as raised:
        _sent(wire)
    assert raised.value.kind is fault
    assert slept == waits
    assert _sent(wire).text == "1234"


def test_a_garbled_reply_is_half_of_one() -> None:
    plan = Fault.model_validate({"kind": "model_garbled", "number": 1})
    assert _sent(SabotagedClient(_Wire(), Sabotage([plan]))).text == "12"


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_night_whose_worker_hangs(tmp_path: Path, times: int) -> None:
    """Once in order within seconds, twice at once; the worker would be waited for for 20 s."""
    store, plan = tmp_path / "kernels.db", tmp_path / "plan.toml"
    night = tmp_path / "night.toml"
    night.write_text(
        '[campaign]\njobs = 1\n[[functions]]\ntarget = "catalog:softmax"\ninputs = ["f32[4,8]"]\n'
    )
    plan.write_text('[[faults]]\nkind = "worker_hangs"\nnumber = 1\n')
    words = [str(plan), "campaign", "run", str(night), "--store", str(store)]
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelwright.testing", *words],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not Path(f"{plan}.injected").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    time.sleep(0.3)
    for _ in range(times):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.2)
    said, _ = process.communicate(timeout=120)
    with KernelStore(str(store)) as opened:
        (run,) = opened.campaigns()
    assert process.returncode == 130, said
    assert run.state == "interrupted"
    assert ("kernelwright campaign resume" in said) == (times == 1)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has the device that fails here")
def test_a_device_that_fails_leaves_the_night_to_the_others(tmp_path: Path) -> None:
    """And a worker that is killed leaves no mark on the candidate it was at."""
    night, store = tmp_path / "night.toml", tmp_path / "kernels.db"
    plan = tmp_path / "plan.toml"
    plan.write_text('[[faults]]\nkind = "worker_dies"\nnumber = 1\n')
    night.write_text(
        '[campaign]\ndevices = ["metal", "simulator"]\ncandidates = 1\n'
        '[[functions]]\ntarget = "catalog:softmax"\ninputs = ["f32[4,8]"]\n'
    )
    words = ["campaign", "run", str(night), "--store", str(store)]
    ran = CliRunner().invoke(app, words, obj=Rehearsal(plan))
    assert ran.exit_code == 1, ran.output
    assert "metal is left out: this machine has no Apple GPU" in ran.output
    with KernelStore(str(store)) as opened:
        (run,) = opened.campaigns()
        assert (run.environment.device.name, run.state) == ("simulator", "finished")
        assert len(opened.best()) == 1
    assert Path(f"{plan}.injected").read_text() == "0 worker_dies at evaluation 1\n"


def _read(folder: Path, text: str) -> FaultPlan:
    path = folder / "plan.toml"
    path.write_text(text)
    return read_plan(path)


def _sent(wire: SabotagedClient) -> Reply:
    prompt = Prompt(system="", context="", request="", template="t")
    shape = ReplyShape(name="s", description="", json_schema={})
    return asyncio.run(wire.send(prompt, shape, Limits()))
