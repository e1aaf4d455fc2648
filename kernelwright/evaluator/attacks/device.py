"""A device that fails in a chosen way: what a driver or a runaway kernel can do to its process."""

import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from kernelwright.metal.device.base import Array, DeviceInfo, RunOptions, RunResult
from kernelwright.metal.kernel import BoundProgram


class Misdeed(StrEnum):
    """What a run does besides computing zeros."""

    NONE = "none"
    HANG = "hang"
    ABORT = "abort"
    SEGFAULT = "segfault"
    EXIT = "exit"
    ALLOCATE = "allocate"
    WRITE_FILE = "write a file"
    CONNECT = "connect"
    READ_KEY = "read a key"
    """Puts what it finds in the environment into the output."""
    GRUDGE = "grudge"
    """Aborts for what another program did in its process before."""
    FORGE = "forge"
    """Writes into the pipe to the parent."""


SECRET_VARIABLE = "ANTHROPIC_API_KEY"
_programs: set[str] = set()
"""What has run in this process."""


@dataclass(frozen=True)
class MisbehavingDevice:
    """Commits one misdeed on every run; `target` is what it attacks."""

    misdeed: Misdeed
    target: str = ""

    @property
    def info(self) -> DeviceInfo:
        """Return an identity of its own."""
        return DeviceInfo(name="simulator", chip="misbehaving", runtime="none", measures_time=False)

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> "MisbehavingExecutable":
        """Return an executable; nothing is compiled."""
        return MisbehavingExecutable(self, program)


@dataclass(frozen=True)
class MisbehavingExecutable:
    """Zeros, with a misdeed on the way."""

    device: MisbehavingDevice
    program: BoundProgram

    def run(self, inputs: Sequence[Array], options: RunOptions) -> RunResult:
        """Commit the misdeed, then return ones where it succeeded and zeros where not."""
        _programs.add(self.program.program.id)
        succeeded = commit(self.device.misdeed, self.device.target)
        outputs = [np.full(t.shape, succeeded, t.dtype.numpy) for t in self.program.outputs]
        return RunResult(outputs=tuple(outputs))


def commit(misdeed: Misdeed, target: str) -> bool:
    """Commit a misdeed against `target`; say whether it succeeded."""
    if misdeed is Misdeed.HANG:
        time.sleep(3600)
    elif misdeed is Misdeed.ABORT or (misdeed is Misdeed.GRUDGE and len(_programs) > 1):
        os.abort()
    elif misdeed is Misdeed.SEGFAULT:
        os.kill(os.getpid(), signal.SIGSEGV)
    elif misdeed is Misdeed.EXIT:
        os._exit(0)
    elif misdeed is Misdeed.ALLOCATE:
        np.ones(1 << 40, np.uint8)
    elif misdeed is Misdeed.WRITE_FILE:
        return _succeeds(lambda: Path(target).write_text("written"))
    elif misdeed is Misdeed.CONNECT:
        host, port = target.split(":")
        return _succeeds(lambda: socket.create_connection((host, int(port)), timeout=2).close())
    elif misdeed is Misdeed.READ_KEY:
        return SECRET_VARIABLE in os.environ
    elif misdeed is Misdeed.FORGE:
        _forge()
    return False


def _succeeds(attempt: object) -> bool:
    assert callable(attempt)
    try:
        attempt()
    except OSError:
        return False
    return True


def _forge() -> None:
    """Write a reply of its own into every open descriptor that takes one."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\x00\x00\x00\x02{}")
        except OSError:
            continue
