"""Who runs something: a process named so that no other one, later or elsewhere, is taken for it."""

import os
import platform
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from weakref import WeakValueDictionary

from kernelwright.digest import digest
from kernelwright.store.record import Campaign

EXPIRY = timedelta(seconds=60)
"""How old the last sign of life of a process on another machine may be."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_PROCESSES = Path("/proc/self/ns/pid")
_threads: WeakValueDictionary[str, threading.Thread] = WeakValueDictionary()
"""Which threads of this process are at which runs."""


@dataclass(frozen=True)
class Owner:
    """A process: its machine, since which boot of it, its number and when that was given."""

    host: str
    machine: str
    """Empty in names that older versions wrote."""
    boot: str
    born: str
    process: int

    @classmethod
    def parse(cls, name: str) -> "Owner":
        """Read what `owner_name` or an older version wrote."""
        place, _, process = name.rpartition(":")
        host, _, marks = place.partition("#")
        machine, boot, born = (*marks.split("."), "", "", "")[:3]
        return cls(host, machine, boot, born, int(process) if process.isdigit() else 0)

    def __str__(self) -> str:
        """Return what people know the process by."""
        return f"{self.host}:{self.process}"


def owner_name() -> str:
    """Name this process for campaigns and leases."""
    process = os.getpid()
    return f"{_place()}.{_born(process)}:{process}"


def begin_here(run_id: str) -> None:
    """Note that this thread begins a run; it does one after the other."""
    _threads[run_id] = threading.current_thread()


def end_here(run_id: str) -> None:
    """Note that a run is over in this process, whether or not its store can be told."""
    _threads.pop(run_id, None)


def is_other_threads(run_id: str) -> bool:
    """Say whether another thread of this process is at a run."""
    thread = _threads.get(run_id)
    return thread is not None and thread.is_alive() and thread is not threading.current_thread()


def is_alive(campaign: Campaign, now: datetime) -> bool:
    """Say whether a run goes on, as far as this machine can tell.

    A process of this machine is looked for. Of another machine's, a sign of life that is old
    says that it ended; so does one from the future, which a clock set back leaves behind.
    """
    if campaign.state != "running":
        return False
    runs = is_running(campaign.owner)
    return abs(now - campaign.heartbeat_at) <= EXPIRY if runs is None else runs


def is_running(name: str) -> bool | None:
    """Say whether a process exists; None when it belongs to another machine."""
    owner, here = Owner.parse(name), Owner.parse(owner_name())
    if owner == here:
        return True
    if (owner.host, owner.machine or here.machine) != (here.host, here.machine):
        return None
    if owner.boot and owner.boot != here.boot:
        # The machine has been started again since; nothing of then runs now.
        return False
    try:
        os.kill(owner.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # Numbers are given again: the process must also have begun when the owner did.
    return not owner.born or _born(owner.process) == owner.born


@lru_cache(maxsize=1)
def _place() -> str:
    """Name this machine and its boot; containers of one machine are machines of their own."""
    host = platform.node()
    machine = digest(host, _text(_MACHINE))
    with suppress(OSError):
        return f"{host}#{machine[:8]}.{digest(_boot(), str(_PROCESSES.readlink()))[:8]}"
    return f"{host}#{machine[:8]}.{digest(_boot())[:8]}"


def _boot() -> str:
    if sys.platform == "darwin":
        return _said(["sysctl", "-n", "kern.bootsessionuuid"])
    return _text(_BOOT)


def _born(process: int) -> str:
    """Return when a process began, in the words of its system; empty when nobody says."""
    if sys.platform == "darwin":
        began = _said(["ps", "-o", "lstart=", "-p", str(process)])
        return digest(began)[:8] if began else ""
    # The name before the state may hold spaces; the 22nd field counts clock ticks since the boot.
    fields = _text(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    is_gone = len(fields) < 20 or fields[0] == "Z"
    return "" if is_gone else fields[19]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
