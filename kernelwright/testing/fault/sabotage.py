"""Carries a plan of faults out: counts the moments of a process and strikes at some of them."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from kernelwright.store.clock import CLOCK
from kernelwright.testing.fault.plan import Fault, FaultKind, Moment

WriteTrouble = Literal["disk_full", "store_away"]
"""What may fail a write to the store."""


class Sabotage:
    """The faults of a plan, each injected once, however often its campaign is killed.

    What has been injected is written to `memory` before it takes effect, so that a campaign
    that is taken up meets the rest of its plan.
    """

    def __init__(self, faults: Sequence[Fault], memory: Path | None = None) -> None:
        self._faults = tuple(faults)
        self._memory = memory
        self._done = _numbers(memory)
        self._begun: set[int] = set()
        self._passed = Counter[Moment]()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def at(self, moment: Moment) -> Sequence[Fault]:
        """Count a moment; strike those who can be struck from here, return the other faults."""
        with self._lock:
            self._passed[moment] += 1
            number = self._passed[moment]
            due = [
                (place, fault)
                for place, fault in enumerate(self._faults)
                if place not in self._done and fault.is_in_force(moment, number)
            ]
            for place, fault in due:
                self._remember(place, fault)
        return [fault for _, fault in due if not _strike(fault)]

    def before_write(self) -> WriteTrouble | None:
        """Count a write to the store; return what shall fail it."""
        kinds = {fault.kind for fault in self.at("write")}
        if "store_away" in kinds:
            return "store_away"
        return "disk_full" if "disk_full" in kinds else None

    def after_write(self) -> None:
        """Count a write that is durable."""
        self.at("commit")

    def count_seconds(self) -> None:
        """Let seconds pass, on a thread of its own, until the process ends."""
        if any(fault.at == "second" for fault in self._faults):
            threading.Thread(target=self._tick, name="faults", daemon=True).start()

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self.at("second")

    def close(self) -> None:
        """Let nothing more happen by the clock."""
        self._over.set()

    def _remember(self, place: int, fault: Fault) -> None:
        if place in self._begun or self._memory is None:
            self._begun.add(place)
            return
        self._begun.add(place)
        line = f"{place} {fault.kind} at {fault.at} {fault.number}\n"
        file = os.open(self._memory, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)


def _strike(fault: Fault) -> bool:
    """Do what can be done to this process; False for a fault that somebody else carries out."""
    strikes: dict[FaultKind, Callable[[], None]] = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
        "clock_jumps": lambda: _jump(fault.hours),
    }
    if fault.kind not in strikes:
        return False
    strikes[fault.kind]()
    return True


def _jump(hours: float) -> None:
    shown = CLOCK.machine

    def jumped() -> datetime:
        return shown() + timedelta(hours=hours)

    CLOCK.machine = jumped


def signal_later(processes: Callable[[], Sequence[int]], number: int, after_s: float) -> None:
    """Send a signal to the process groups of workers in a moment."""

    def send() -> None:
        time.sleep(after_s)
        for process in processes():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process, number)

    threading.Thread(target=send, name="fault", daemon=True).start()


def _numbers(memory: Path | None) -> set[int]:
    if memory is None or not memory.exists():
        return set()
    return {int(line.split()[0]) for line in memory.read_text().splitlines()}
