"""Landlock: which files a process may read and write, and whom it may signal.

A part of a worker's first code, so only the standard library is imported.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# linux/landlock.h, linux/prctl.h and the system call table that x86-64 and arm64 share for calls
# of this age.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many file rights each version of Landlock knows; 16 from version 5 on."""
_NETWORK_ABI, _BIND_AND_CONNECT = 4, 0b11
_SCOPE_ABI, _SOCKETS_AND_SIGNALS = 6, 0b11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
"""Rights that a rule about a file, and not a folder, may give."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@dataclass(frozen=True)
class Paths:
    """What a process may do with which files and folders; the rest of them is closed."""

    written: Sequence[str]
    """Read and changed, but nothing in them is executed."""
    read: Sequence[str] = ()
    """Read and executed."""
    devices: Sequence[str] = ()
    """Device files that a driver opens and controls."""
    reads_everything: bool = False


def version() -> int:
    """Return the version of Landlock that this kernel has, 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, 0, _VERSION_FLAG)))


def confine(paths: Paths) -> bool:
    """Refuse whatever `paths` does not allow, and every TCP port; False where the kernel cannot."""
    known = version()
    if known < 1:
        return False
    everything = (1 << _RIGHTS_BY_ABI.get(known, 16)) - 1
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    handled = everything & ~reading if paths.reads_everything else everything
    ruleset = _Ruleset(handled, _BIND_AND_CONNECT if known >= _NETWORK_ABI else 0, 0)
    rules = [(path, everything & ~_EXECUTE) for path in paths.written]
    rules += [(path, reading) for path in paths.read]
    rules += [(path, _READ_FILE | _WRITE_FILE | _IOCTL_DEVICE) for path in paths.devices]
    rules.append(("/dev/null", _READ_FILE | _WRITE_FILE))
    return _restrict(ruleset, known, [(path, rights & handled) for path, rights in rules])


def confine_signals() -> bool:
    """Let this process signal only those that it starts; False where the kernel cannot."""
    known = version()
    if known < _SCOPE_ABI:
        return False
    # Every ruleset forbids to move files between folders, unless it says otherwise.
    return _restrict(_Ruleset(_REFER, 0, _SOCKETS_AND_SIGNALS), known, [("/", _REFER)])


def _restrict(ruleset: _Ruleset, known: int, rules: Iterable[tuple[str, int]]) -> bool:
    libc = _libc()
    size = 24 if known >= _SCOPE_ABI else 16 if known >= _NETWORK_ABI else 8
    made = libc.syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    if made < 0:
        return False
    for path, rights in rules:
        _allow(libc, made, path, rights)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    confined = bool(libc.syscall(_RESTRICT, made, 0) == 0)
    os.close(made)
    return confined


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule; a path that is not there needs none."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    allowed = rights if Path(path).is_dir() else rights & _OF_FILES
    if allowed:
        rule = _PathRule(allowed, place)
        libc.syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
