"""Campaigns that are killed again and again, or in which everything around them fails."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from benchmarks.reliability import life, scene
from benchmarks.reliability.inspection import Finding, has_finished, inspect
from benchmarks.reliability.life import Order
from benchmarks.reliability.served import FAULTS, Served
from kernelwright.agents.budget import Caps
from kernelwright.campaign import Captured
from kernelwright.store import KernelStore
from kernelwright.testing.fault import Draw, Fault, drawn
from kernelwright.testing.fault.plan import FaultKind

AMPLE = Caps(dollars=5.0, calls=400)
TIGHT = Caps(dollars=0.15, calls=12)
KINDS = ("any instant", "any instant", "write", "commit", "evaluation")
"""Of kills: from outside, or from within at a moment that is counted."""
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
        self.other_champions += other.other_champions
        self.problems += other.problems
        self.seconds += other.seconds


class Sweep:
    """Runs campaigns one after the other against one server, each in a folder of its own."""

    def __init__(
        self, folder: Path, served: Served, captured: Captured, *, keeps: bool = False
    ) -> None:
        self._folder = folder
        self._keeps = keeps
        self._served = served
        self._captured = captured
        self._verdicts = folder / "verdicts"
        self._verdicts.mkdir(exist_ok=True)
        # What the first store of a process costs, forked lives need not pay.
        with KernelStore(str(folder / f"first-{os.getpid()}.db")) as store:
            store.statistics()

    def calm(self, *, judge: str) -> tuple[Finding, float]:
        """Run a campaign that nothing disturbs; return what it found and how long it took."""
        order = self._order("calm", judge=judge)
        self._served.begin([])
        begun = time.monotonic()
        code = _await(life.begin(order, self._captured))
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
        while tally.kills.total() < kills:
            kind = chance.choice(kinds)
            faults: tuple[Fault, ...] = ()
            limit_s = 60.0
            if kind == "any instant":
                limit_s = chance.uniform(0.0, 0.7 * within_s)
            else:
                faults = (_kill_at(kind, chance.randint(1, 15)),)
            code = _await(life.begin(replace(order, faults=faults), self._captured), limit_s)
            tally.lives += 1
            if code != -signal.SIGKILL:
                break
            tally.kills[kind] += 1
            if has_finished(order):
                # Killed between its last write and its exit: there is nothing to resume.
                code = life.ENDED
                break
        else:
            code = _await(life.begin(order, self._captured))
            tally.lives += 1
        self._close(tally, order, calm, code)
        return tally

    def faulty(self, calm: Finding, seed: int, faults: int, how: Mapping[str, object]) -> Tally:
        """Let a drawn plan of faults and a misbehaving server disturb a campaign to its end."""
        chance = random.Random(seed)
        kinds: tuple[FaultKind, ...] = get_args(FaultKind)
        if how.get("judge") != "real":
            kinds = tuple(kind for kind in kinds if not kind.startswith("worker"))
        plan = drawn(Draw(seed=seed, count=faults, kinds=kinds, within=20))
        order = replace(
            self._order(f"faulty-{seed}", **how),
            faults=tuple(fault for fault in plan if fault.at != "second"),
            remembers=True,
        )
        self._served.begin([chance.choice((*FAULTS, *["none"] * 20)) for _ in range(40)])
        tally = Tally(campaigns=1)
        code = life.TO_BE_TAKEN_UP
        while code in (life.TO_BE_TAKEN_UP, -signal.SIGKILL) and tally.lives < _MOST_LIVES:
            code = _await(life.begin(order, self._captured))
            tally.lives += 1
        memory = order.folder / "injected.txt"
        injected = memory.read_text().splitlines() if memory.exists() else []
        tally.faults.update(line.split()[1] for line in injected)
        self._close(tally, order, calm, code)
        return tally

    def _close(self, tally: Tally, order: Order, calm: Finding, code: int) -> None:
        account = self._served.account()
        tally.faults.update({f"server: {name}": n for name, n in account.faults.items()})
        finding = inspect(order, account)
        problems = list(finding.problems)
        if code != life.ENDED:
            problems.append(f"ended with {code}: {_said(order)}")
        if order.caps == AMPLE and finding.champions != calm.champions:
            tally.other_champions = 1
            problems.append(f"other champions: {finding.champions}")
        tally.evaluations, tally.calls = finding.evaluations, finding.calls
        tally.lost_calls = finding.lost_calls
        tally.problems = [f"{order.folder.name}: {problem}" for problem in problems]
        if not problems and not self._keeps:
            shutil.rmtree(order.folder)

    def _order(self, name: str, **how: object) -> Order:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        order = Order(folder, self._verdicts, self._served.base_url, AMPLE)
        return replace(order, **how)  # type: ignore[arg-type]


def _kill_at(moment: str, number: int) -> Fault:
    return Fault.model_validate({"kind": "kill", "at": moment, "number": number})


def _await(process: int, limit_s: float = 120.0) -> int:
    """Wait for a life, and kill it at its limit; return its code, negative for a signal."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_S)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _said(order: Order) -> str:
    return order.errors.read_text()[-2000:] if order.errors.exists() else "nothing"


@contextmanager
def opened(folder: Path, *, keeps: bool = False) -> Iterator[Sweep]:
    """Start the server, trace the functions, and end the server at the end."""
    served = Served()
    try:
        yield Sweep(folder, served, scene.captured(), keeps=keeps)
    finally:
        served.close()
