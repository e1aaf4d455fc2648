"""One life of a campaign: a forked process that takes it up, and may be killed at any instant."""

import json
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

# Imported once, before lives are forked: each would take a second to do it.
import kernelwright.agents.providers.openai_chat
import kernelwright.store.migration  # noqa: F401
from benchmarks.reliability import scene
from benchmarks.reliability.verdicts import (
    InventingJudge,
    Journal,
    JournalingJudge,
    KnownJobJudge,
    reading,
    recording,
)
from kernelwright.agents.budget import Caps
from kernelwright.agents.providers.client import ProviderClient
from kernelwright.campaign import (
    Captured,
    Engine,
    MakeJudge,
    judges_on,
)
from kernelwright.campaign.event import CandidateConfirmed, CandidateJudged, Event
from kernelwright.campaign.execution import crash_quarantine, run_control
from kernelwright.campaign.execution.executor import ExecutorFactory
from kernelwright.campaign.execution.retry_policy import DeviceCare, RetryPolicy
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.fleet.fleet_executors import FleetExecutors
from kernelwright.campaign.history import heartbeat
from kernelwright.campaign.judging.job_judge import JobJudge
from kernelwright.campaign.team.model_team import open_team
from kernelwright.campaign.team.offline_team import offline_team
from kernelwright.errors import BlockedError, StoreError
from kernelwright.search import model_silence
from kernelwright.store import KernelStore
from kernelwright.testing.fault import Fault, Sabotage, SabotagedClient, sabotaged
from kernelwright.testing.fault.faulty_store import FaultyStore
from kernelwright.testing.fault.fleet import SabotagedExecutors
from kernelwright.testing.fault.judge import Employer
from tests.agents.loopback.partner import QUICK

ENDED, TO_BE_TAKEN_UP, BROKEN = 0, 75, 70
DEAD_AFTER_S = 5.0
"""Without a sign of life a worker of a fleet is dead; a minute where nothing hurries."""
_PATIENT = QUICK.model_copy(
    update={"limits": QUICK.limits.model_copy(update={"first_event_s": 10.0, "stall_s": 2.0})}
)
"""A machine that is busy with other jobs is no server that stalls."""
_RETRY_POLICY = RetryPolicy(first_pause_s=0.02, longest_pause_s=0.1)


@dataclass(frozen=True)
class Order:
    """What a life is to do."""

    folder: Path
    """Where the journals and the memory of faults are, and a store that is a file."""
    url: str
    """Of the store."""
    verdicts: Path
    base_url: str
    caps: Caps
    evaluations: int | None = None
    seconds: float | None = None
    fleet: bool = False
    """True when workers of a fleet evaluate, False when the life does so itself."""
    judge: str = "read"
    """`record` and `real` ask the simulator; `read` gives the verdicts that were recorded, and
    `invent` makes them up."""
    faults: tuple[Fault, ...] = ()
    remembers: bool = False
    """True when faults that were injected are not injected again."""

    @property
    def work(self) -> Path:
        """What was evaluated, by whomever, a line each."""
        return self.folder / "work.txt"

    @property
    def journal(self) -> Path:
        """What the process saw acknowledged, a line each."""
        return self.folder / "journal.jsonl"

    @property
    def errors(self) -> Path:
        """Where a life says why it broke."""
        return self.folder / "errors.txt"


def begin(order: Order, captured: Captured) -> int:
    """Fork a life; return its process id."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _live(order, captured)
    return process


def _live(order: Order, captured: Captured) -> NoReturn:
    code = BROKEN
    try:
        code = _run(order, captured)
    except StoreError as e:
        code = TO_BE_TAKEN_UP if isinstance(e, BlockedError) else BROKEN
        append(order.errors, str(e))
    except BaseException:
        append(order.errors, traceback.format_exc())
    finally:
        os._exit(code)


def _run(order: Order, captured: Captured) -> int:
    _hurry()
    if order.fleet:
        # A worker that is killed at random says nothing about its candidate, twice neither.
        crash_quarantine._MOST_LOSSES = scene.NEVER
    memory = order.folder / "injected.txt" if order.remembers else None
    sabotage = Sabotage(order.faults, memory)
    sabotage.count_seconds()
    spec = scene.spec(order.base_url, order.caps, order.evaluations, order.seconds)

    def listen(event: Event) -> None:
        if isinstance(event, CandidateJudged | CandidateConfirmed) and not event.reused:
            append(order.journal, [type(event).__name__, event.candidate_id])

    def rewire(wire: ProviderClient) -> ProviderClient:
        return SabotagedClient(wire, sabotage)

    with (
        FaultyStore(order.url, sabotage) as store,
        open_team(store, spec, _PATIENT, rewire=rewire) as team_factory,
    ):
        engine = Engine(
            store,
            spec,
            offline_team(),
            _evaluators(order, sabotage, store),
            RunSettings(
                listen=listen,
                team_factory=team_factory,
                resumes=True,
                care=DeviceCare(_RETRY_POLICY),
            ),
        )

        def interrupt(number: int, frame: FrameType | None) -> None:
            engine.stop()

        signal.signal(signal.SIGINT, interrupt)
        report = engine.run(captured)
    return TO_BE_TAKEN_UP if report.ended.interrupted else ENDED


def _evaluators(
    order: Order, sabotage: Sabotage, store: KernelStore
) -> MakeJudge | ExecutorFactory:
    if order.fleet:
        fleet = FleetExecutors(store, "simulator", dead_after_s=DEAD_AFTER_S)
        return SabotagedExecutors(fleet, sabotage)
    if order.judge == "record":
        return recording(order.verdicts)
    if order.judge == "real":
        return sabotaged(judges_on("simulator"), sabotage)
    return sabotaged(lambda: known_judge(order), sabotage)


def known_judge(order: Order) -> Employer:
    """Return a judge whose verdicts are known, which writes down what it evaluates."""
    inner = InventingJudge() if order.judge == "invent" else reading(order.verdicts)()
    return JournalingJudge(inner, Journal(order.work))


def job_judge(order: Order) -> JobJudge:
    """Return the same for a worker of a fleet."""
    return KnownJobJudge(known_judge(order))


def _hurry() -> None:
    """Shorten what a person's night waits for; nothing else differs from one."""
    heartbeat.BEAT_S = 0.2
    run_control._FIRST_PAUSE_S = 0.02
    run_control._LONGEST_PAUSE_S = 0.1
    model_silence._FIRST_SILENCE_S = 0.02
    os.environ["OPENAI_API_KEY"] = "sk-reliability"
    os.environ["NO_PROXY"] = "127.0.0.1"


def append(path: Path, line: object) -> None:
    """Append a line as one write, which a kill cannot cut in two."""
    Journal(path).write(json.dumps(line))
