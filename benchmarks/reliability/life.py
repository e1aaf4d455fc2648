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
from benchmarks.reliability.verdicts import InventingJudge, reading, recording
from kernelwright.agents.budget import Caps
from kernelwright.agents.providers.client import ProviderClient
from kernelwright.campaign import (
    Captured,
    Engine,
    MakeJudge,
    judges_on,
)
from kernelwright.campaign.event import CandidateConfirmed, CandidateJudged, Event
from kernelwright.campaign.execution import run_control
from kernelwright.campaign.execution.retry_policy import Endurance, Stamina
from kernelwright.campaign.history import heartbeat
from kernelwright.campaign.team.model_team import hiring
from kernelwright.campaign.team.offline_team import offline_team
from kernelwright.errors import StoreError
from kernelwright.search import bandit_strategy
from kernelwright.testing.fault import Fault, Sabotage, SabotagedClient, sabotaged
from kernelwright.testing.fault.faulty_store import FaultyStore
from tests.agents.loopback.partner import QUICK

ENDED, TO_BE_TAKEN_UP, BROKEN = 0, 75, 70
_STAMINA = Stamina(first_pause_s=0.02, longest_pause_s=0.1)


@dataclass(frozen=True)
class Order:
    """What a life is to do."""

    folder: Path
    """Where the store, the journal and the memory of faults are."""
    verdicts: Path
    base_url: str
    caps: Caps
    evaluations: int | None = None
    judge: str = "read"
    """`record` and `real` ask the simulator; `read` gives the verdicts that were recorded, and
    `invent` makes them up."""
    faults: tuple[Fault, ...] = ()
    remembers: bool = False
    """True when faults that were injected are not injected again."""

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.folder / "kernels.db"

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
        code = TO_BE_TAKEN_UP if "full disk" in str(e) else BROKEN
        _append(order.errors, str(e))
    except BaseException:
        _append(order.errors, traceback.format_exc())
    finally:
        os._exit(code)


def _run(order: Order, captured: Captured) -> int:
    _hurry()
    memory = order.folder / "injected.txt" if order.remembers else None
    sabotage = Sabotage(order.faults, memory)
    sabotage.count_seconds()
    spec = scene.spec(order.base_url, order.caps, order.evaluations)

    def listen(event: Event) -> None:
        if isinstance(event, CandidateJudged | CandidateConfirmed) and not event.reused:
            _append(order.journal, [type(event).__name__, event.candidate_id])

    def rewire(wire: ProviderClient) -> ProviderClient:
        return SabotagedClient(wire, sabotage)

    with (
        FaultyStore(str(order.store), sabotage) as store,
        hiring(store, spec, QUICK, rewire=rewire) as hire,
    ):
        engine = Engine(
            store,
            spec,
            offline_team(),
            _judges(order, sabotage),
            listen=listen,
            hire=hire,
            resumes=True,
            endurance=Endurance(_STAMINA),
        )

        def interrupt(number: int, frame: FrameType | None) -> None:
            engine.stop()

        signal.signal(signal.SIGINT, interrupt)
        report = engine.run(captured)
    return TO_BE_TAKEN_UP if report.ended.interrupted else ENDED


def _judges(order: Order, sabotage: Sabotage) -> MakeJudge:
    if order.judge == "record":
        return recording(order.verdicts)
    if order.judge == "invent":
        return sabotaged(InventingJudge, sabotage)
    if order.judge == "read":
        return sabotaged(reading(order.verdicts), sabotage)
    return sabotaged(judges_on("simulator"), sabotage)


def _hurry() -> None:
    """Shorten what a person's night waits for; nothing else differs from one."""
    heartbeat.BEAT_S = 0.2
    run_control._FIRST_PAUSE_S = 0.02
    run_control._LONGEST_PAUSE_S = 0.1
    bandit_strategy._FIRST_SILENCE_S = 0.02
    os.environ["OPENAI_API_KEY"] = "sk-reliability"
    os.environ["NO_PROXY"] = "127.0.0.1"


def _append(path: Path, line: object) -> None:
    """Append a line as one write, which a kill cannot cut in two."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)
