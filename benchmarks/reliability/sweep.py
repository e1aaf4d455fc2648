"""Campaigns that are killed again and again, or in which everything around them fails."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from benchmarks.reliability import life, scene
from benchmarks.reliability.crew import Crew
from benchmarks.reliability.inspection import Finding, ended_as, has_finished, inspect
from benchmarks.reliability.life import Order
from benchmarks.reliability.place import Place
from benchmarks.reliability.served import FAULTS, Served
from kernelwright.agents.budget import Caps
from kernelwright.campaign import Captured
from kernelwright.store import KernelStore
from kernelwright.testing.fault import Draw, Fault, drawn
from kernelwright.testing.fault.plan import FaultKind

AMPLE = Caps(dollars=5.0, calls=400)
TIGHT = Caps(dollars=0.15, calls=12)
TIMED = Caps(dollars=5.0, calls=401)
"""As ample, and another: the time is what binds."""
KINDS = ("any instant", "any instant", "write", "commit", "evaluation")
"""Of kills: from outside, or from within at a moment that is counted."""
_MOST_IN_FLIGHT = 2
"""Evaluations that a campaign has under way when it is killed: its jobs."""
_POLL_S = 0.002
_MOST_LIVES = 200


@dataclass
class Tally:
    """What a sweep did and found."""

    campaigns: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    evaluations: int = 0
    calls: int = 0
    lost_calls: int = 0
    repeated: int = 0
    raised: int = 0
    """Campaigns that a cap ended and that went on with a larger one."""
    other_champions: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        """Add another sweep's figures."""
        self.campaigns += other.campaigns
        self.kills += other.kills
        self.faults += other.faults
        self.lives += other.lives
        self.evaluations += other.evaluations
        self.calls += other.calls
        self.lost_calls += other.lost_calls
        self.repeated += other.repeated
        self.raised += other.raised
        self.other_champions += other.other_champions
        self.problems += other.problems
        self.seconds += other.seconds


class Sweep:
    """Runs campaigns one after the other against one server, each in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        place: Place,
        served: Served,
        captured: Captured,
        *,
        keeps: bool = False,
        fleet: bool = False,
    ) -> None:
        self._folder = folder
        self._place = place
        self._fleet = fleet
        self._keeps = keeps
        self._served = served
        self._captured = captured
        self._verdicts = folder / "verdicts"
        self._verdicts.mkdir(parents=True, exist_ok=True)
        # What the first store of a process costs, forked lives need not pay.
        with KernelStore(str(folder / f"first-{os.getpid()}.db")) as store:
            store.statistics()

    def calm(self, *, judge: str) -> tuple[Finding, float]:
        """Run a campaign that nothing disturbs; return what it found and how long it took."""
        order = self._order("calm", judge=judge)
        if judge == "record":
            # The evaluator is asked once, here, and its verdicts are read from then on.
            order = replace(order, fleet=False)
        self._served.begin([])
        begun = time.monotonic()
        with self._crew(order, random.Random(0), troubles=0) as crew:
            code = _await(life.begin(order, self._captured), tend=crew.tend)
        took_s = time.monotonic() - begun
        if code != life.ENDED:
            raise RuntimeError(f"the calm campaign ended with {code}: {_said(order)}")
        return inspect(order, self._served.account()), took_s

    def killed(
        self,
        calm: Finding,
        seed: int,
        kills: int,
        within_s: float,
        *,
        how: Mapping[str, object],
        kinds: Sequence[str] = KINDS,
    ) -> Tally:
        """Kill a campaign a number of times, then let it end; `how` are fields of its order."""
        chance = random.Random(seed)
        order = self._order(f"killed-{seed}", **how)
        self._served.begin([])
        tally = Tally(campaigns=1)
        with self._crew(order, chance, troubles=kills // 2) as crew:
            code = self._killed(order, chance, kills, within_s, kinds, tally, crew)
            if code == life.ENDED and order.caps != AMPLE:
                code = self._raised(order, tally, crew)
        tally.kills.update(crew.happened)
        self._close(tally, self._without_caps(order), calm, code)
        return tally

    def _killed(
        self,
        order: Order,
        chance: random.Random,
        kills: int,
        within_s: float,
        kinds: Sequence[str],
        tally: Tally,
        crew: Crew,
    ) -> int:
        while tally.kills.total() < kills:
            kind = chance.choice(kinds)
            faults: tuple[Fault, ...] = ()
            limit_s = 60.0
            if kind == "any instant":
                limit_s = chance.uniform(0.0, 0.7 * within_s)
            else:
                faults = (_kill_at(kind, chance.randint(1, 15)),)
            process = life.begin(replace(order, faults=faults), self._captured)
            code = _await(process, limit_s, tend=crew.tend)
            tally.lives += 1
            if code != -signal.SIGKILL:
                return code
            tally.kills[kind] += 1
            if has_finished(order):
                # Killed between its last write and its exit: there is nothing to resume.
                return life.ENDED
        tally.lives += 1
        return _await(life.begin(order, self._captured), tend=crew.tend)

    def _raised(self, order: Order, tally: Tally, crew: Crew) -> int:
        """Let a campaign that a cap ended go on with larger ones; its caps held until then."""
        finding = inspect(order, self._served.account())
        tally.problems += finding.problems
        if ended_as(order) != "capped":
            return life.ENDED
        tally.raised += 1
        tally.lives += 1
        return _await(life.begin(self._without_caps(order), self._captured), tend=crew.tend)

    def _without_caps(self, order: Order) -> Order:
        return replace(order, caps=AMPLE, evaluations=None, seconds=None)

    def faulty(self, calm: Finding, seed: int, faults: int, how: Mapping[str, object]) -> Tally:
        """Let a drawn plan of faults and a misbehaving server disturb a campaign to its end."""
        chance = random.Random(seed)
        kinds: tuple[FaultKind, ...] = get_args(FaultKind)
        if how.get("judge") != "real":
            kinds = tuple(kind for kind in kinds if not kind.startswith("worker"))
        if self._fleet:
            # The driver is the workers', who have plans of their own.
            kinds = tuple(kind for kind in kinds if kind != "driver_silent")
        plan = drawn(Draw(seed=seed, count=faults, kinds=kinds, within=20))
        order = replace(
            self._order(f"faulty-{seed}", **how),
            faults=tuple(fault for fault in plan if fault.at != "second"),
            remembers=True,
        )
        self._served.begin([chance.choice((*FAULTS, *["none"] * 20)) for _ in range(40)])
        tally = Tally(campaigns=1)
        code = life.TO_BE_TAKEN_UP
        with self._crew(order, chance, troubles=faults // 2) as crew:
            while code in (life.TO_BE_TAKEN_UP, -signal.SIGKILL) and tally.lives < _MOST_LIVES:
                code = _await(life.begin(order, self._captured), tend=crew.tend)
                tally.lives += 1
        tally.faults.update(crew.happened)
        memory = order.folder / "injected.txt"
        injected = memory.read_text().splitlines() if memory.exists() else []
        tally.faults.update(line.split()[1] for line in injected)
        self._close(tally, order, calm, code)
        return tally

    def _close(self, tally: Tally, order: Order, calm: Finding, code: int) -> None:
        account = self._served.account()
        tally.faults.update({f"server: {name}": n for name, n in account.faults.items()})
        finding = inspect(order, account)
        problems = [*tally.problems, *finding.problems]
        disturbed = tally.kills + tally.faults
        if finding.repeated > _MOST_IN_FLIGHT * disturbed.total():
            problems.append(f"{finding.repeated} evaluated again, {disturbed.total()} disturbances")
        if code != life.ENDED:
            problems.append(f"ended with {code}: {_said(order)}")
        if not _are_alike(finding, calm, were_capped=bool(tally.raised)):
            tally.other_champions = 1
            problems.append(f"other champions: {finding.champions}")
        tally.evaluations, tally.calls = finding.evaluations, finding.calls
        tally.lost_calls = finding.lost_calls
        tally.repeated = finding.repeated
        tally.problems = [f"{order.folder.name}: {problem}" for problem in problems]
        if not problems and not self._keeps:
            shutil.rmtree(order.folder)
            self._place.forget(order.url)

    @contextmanager
    def _crew(self, order: Order, chance: random.Random, troubles: int) -> Iterator[Crew]:
        """Have workers for a campaign on a fleet; for another one there are none to tend."""
        crew = Crew(order, chance, troubles)
        if order.fleet:
            crew.begin()
        try:
            yield crew
        finally:
            crew.end()
            crew.count_faults()

    def _order(self, name: str, **how: object) -> Order:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        order = Order(
            folder,
            self._place.url(folder),
            self._verdicts,
            self._served.base_url,
            AMPLE,
            fleet=self._fleet,
        )
        return replace(order, **how)  # type: ignore[arg-type]


def _are_alike(found: Finding, calm: Finding, *, were_capped: bool) -> bool:
    """Compare champions; a cap may have ended a night between two that are equally fast."""
    if not were_capped:
        return found.champions == calm.champions
    return [(c.task, c.rank) for c in found.champions] == [(c.task, c.rank) for c in calm.champions]


def _kill_at(moment: str, number: int) -> Fault:
    return Fault.model_validate({"kind": "kill", "at": moment, "number": number})


def _await(process: int, limit_s: float = 300.0, tend: Callable[[], None] = lambda: None) -> int:
    """Wait for a life, and kill it at its limit; return its code, negative for a signal."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        tend()
        time.sleep(_POLL_S)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _said(order: Order) -> str:
    return order.errors.read_text()[-2000:] if order.errors.exists() else "nothing"


@contextmanager
def opened(
    folder: Path, place: Place, *, keeps: bool = False, fleet: bool = False
) -> Iterator[Sweep]:
    """Start the model's server, trace the functions, and end the server at the end."""
    served = Served()
    try:
        yield Sweep(folder, place, served, scene.captured(), keeps=keeps, fleet=fleet)
    finally:
        served.close()
