"""A device that fails in a chosen way: what a driver or a runaway kernel can do to its process."""

import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from kernelwright.metal.device.base import DeviceInfo, RunOptions
from kernelwright.metal.device.executable import Array, RunResult
from kernelwright.metal.device.simulator.toolchain import cache_path
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
    READ_FILE = "read a file"
    LIST_FOLDER = "list a folder"
    SIGNAL = "signal a process"
    """`target` is its id."""
    TRACE = "trace a process"
    EXECUTE = "execute a program"
    MAKE_SOCKET = "make a socket"
    LEAVE_TRACES = "leave traces"
    """Changes all that a process has of its own, for the next candidate to find."""
    FIND_TRACES = "find traces"
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
    elif misdeed is Misdeed.READ_FILE:
        return _succeeds(lambda: Path(target).read_bytes())
    elif misdeed is Misdeed.LIST_FOLDER:
        return _succeeds(lambda: list(Path(target).iterdir()))
    elif misdeed is Misdeed.SIGNAL:
        return _succeeds(lambda: os.kill(int(target), signal.SIGCONT))
    elif misdeed is Misdeed.TRACE:
        return bool(ctypes.CDLL(None).ptrace(16, int(target), None, None) == 0)
    elif misdeed is Misdeed.EXECUTE:
        return _succeeds(lambda: subprocess.run([target], check=False))
    elif misdeed is Misdeed.MAKE_SOCKET:
        return _succeeds(lambda: socket.socket().close())
    elif misdeed is Misdeed.LEAVE_TRACES:
        _leave_traces()
    elif misdeed is Misdeed.FIND_TRACES:
        return _finds_traces()
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


_TRACE = "KERNELWRIGHT_TRACE"


def _leave_traces() -> None:
    """Change environment, folder, files, signals, limits, descriptors and floating point."""
    os.environ[_TRACE] = "1"
    (Path(os.environ["TMPDIR"]) / _TRACE).write_text("1")
    (cache_path() / "libraries" / _TRACE).write_text("1")
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for descriptor in range(40, 60):
        os.dup2(1, descriptor)
    # fenv.h: towards zero, on x86-64 and arm64.
    ctypes.CDLL(None).fesetround(0xC00 if platform.machine() == "x86_64" else 0xC00000)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def _finds_traces() -> bool:
    left = (Path(os.environ["TMPDIR"]), cache_path() / "libraries")
    return any(
        (
            _TRACE in os.environ,
            any((folder / _TRACE).exists() for folder in left),
            Path.cwd() == Path("/"),
            os.umask(0o022) == 0o777,
            signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN,
            resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 64,
            _succeeds(lambda: os.fstat(50)),
            ctypes.CDLL(None).fegetround() != 0,
            len(_programs) > 1,
        )
    )


def _forge() -> None:
    """Write a reply of its own into every open descriptor that takes one."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\x00\x00\x00\x02{}")
        except OSError:
            continue
