"""The first code of a worker process: give up rights, then load a service and serve it.

It runs as a script, before NumPy starts threads, because Linux lets only a process with a
single thread enter a new user namespace. Only the standard library is imported until then.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

# linux/sched.h, linux/prctl.h, linux/landlock.h and the system call table that x86-64 and
# arm64 share for calls of this age.
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_WRITE_FILE, _READ_DIR_AND_BELOW = 1 << 1, 0b1101
_IOCTL_DEVICE = 1 << 15
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many file rights each version of Landlock knows; 16 from version 5 on."""
_OPEN_FILES = 512
_OPEN_FILES_OF_DRIVERS = 4096
"""CUDA holds several descriptors for each of a machine's GPUs."""
_DEVICE_FILES = ("nvidia*", "nvidia-caps/*", "dri/*")
_FILE_BYTES = 1 << 30


def limit_resources(memory_bytes: int, *, drives_gpu: bool) -> list[str]:
    """Cap memory, files and core dumps; return what holds.

    A GPU's driver keeps its bookkeeping and pinned staging buffers in private memory that grows
    with the GPU's own, hundreds of GB on a large one, so its process has no cap on data. What a
    candidate may take there is capped before it runs: its arrays are declared, and kernels
    cannot allocate.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_OF_DRIVERS if drives_gpu else _OPEN_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if drives_gpu:
        return ["files"]
    # Not RLIMIT_AS: a reserved address range costs nothing, and red zones need plenty of it.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    return ["memory", "files"]


def enter_namespaces() -> bool:
    """Leave the network, and let mounts be private; False where that is not possible."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWNS) != 0:
        return False
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def mount_privately(mounts: list[tuple[str, str]]) -> bool:
    """Show each first folder in the place of the second, to this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    return all(
        libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None) == 0
        for source, target in mounts
    )


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64),)


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def confine_writes(folders: list[str], *, drives_gpu: bool) -> bool:
    """Refuse every change to files outside `folders`; False where the kernel cannot.

    A driver may still open the GPU's device files for writing and control them.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    everything = (1 << _RIGHTS_BY_ABI.get(version, 16)) - 1
    writing = everything & ~_READ_DIR_AND_BELOW
    handled = _Ruleset(writing)
    rules = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if rules < 0:
        return False
    control = writing & (_WRITE_FILE | _IOCTL_DEVICE)
    devices = _device_files() if drives_gpu else []
    allowed = [(f, writing) for f in folders] + [(d, control) for d in devices]
    for folder, rights in (*allowed, ("/dev/null", _WRITE_FILE)):
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = _PathRule(rights, place)
        libc.syscall(_LANDLOCK_ADD, rules, 1, ctypes.byref(rule), 0)
        os.close(place)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    confined = bool(libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0)
    os.close(rules)
    return confined


def _device_files() -> list[str]:
    found = (path for pattern in _DEVICE_FILES for path in Path("/dev").glob(pattern))
    return [str(path) for path in found if not path.is_dir()]


def die_with_parent() -> None:
    """Ask the kernel to end this process when the parent ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(text: str) -> None:
    """Confine this process as the JSON `text` says and serve until the pipe closes."""
    order = json.loads(text)
    die_with_parent()
    drives_gpu, means = order["drives_gpu"], order["means"]
    held = limit_resources(order["memory_bytes"], drives_gpu=drives_gpu)
    folders = order["folders"]
    if "namespaces" in means and enter_namespaces():
        held.append("network")
        if mount_privately(order["mounts"]):
            held.append("cache")
    if "cache" not in held:
        folders += order["shared_folders"]
    if "writes" in means and confine_writes(folders, drives_gpu=drives_gpu):
        held.append("writes")
    # The parent's own packages, which need not be those that this interpreter would find.
    sys.path[:] = [order["package_folder"], *order["import_folders"]]
    service = importlib.import_module(order["service"])
    service.serve(Connection(order["pipe"]), tuple(held))


if __name__ == "__main__":
    main(sys.argv[1])
