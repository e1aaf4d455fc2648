"""The first code of a worker process: give up rights, then load a service and serve it.

It runs as a script, before NumPy starts threads, because Linux lets only a process with a
single thread enter a new user namespace. Only the standard library is imported until then.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright.evaluator.worker import landlock, system_calls
else:
    # The package itself imports NumPy and MLX, which must wait.
    sys.path.insert(0, str(Path(__file__).parent))
    import landlock
    import system_calls

# linux/sched.h, linux/prctl.h
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_CLONE_NEWIPC, _CLONE_NEWPID = 0x08000000, 0x20000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 512
_OPEN_FILES_OF_DRIVERS = 4096
"""CUDA holds several descriptors for each of a machine's GPUs."""
_DEVICE_FILES = ("nvidia*", "nvidia-caps/*", "dri/*")
_FILE_BYTES = 1 << 30
_SYSTEM_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/random", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory"),
    *("/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage"),
)
"""What libraries ask of a machine when they load."""
_SIGNALLED = 128
"""Beyond it an exit code stands for a signal, as in a shell."""


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


def enter_namespaces(*, has_own_processes: bool) -> bool:
    """Leave the network, and let mounts be private; False where that is not possible.

    Those that this process starts from now on see and signal no others, if that is asked.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    wanted = _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWNS
    if has_own_processes:
        wanted |= _CLONE_NEWIPC | _CLONE_NEWPID
    if libc.unshare(wanted) != 0:
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


def _device_files() -> list[str]:
    found = (path for pattern in _DEVICE_FILES for path in Path("/dev").glob(pattern))
    return [str(path) for path in found if not path.is_dir()]


def die_with_parent() -> None:
    """Ask the kernel to end this process when the parent ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def readable_paths(package_folder: str, import_folders: list[str]) -> list[str]:
    """Return what Python, the packages and the compiler are read from."""
    python = Path(sys.executable).resolve().parents[1]
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(python)}
    package = str(Path(package_folder) / "kernelwright")
    return [*prefixes, package, *import_folders, *_SYSTEM_FOLDERS, *_SYSTEM_FILES]


def become_first_process(pipe: int) -> None:
    """Go on in a child, the first process of its namespace; this one ends as that one does."""
    child = os.fork()
    if child == 0:
        die_with_parent()
        return
    os.close(pipe)
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    if code > _SIGNALLED:
        number = code - _SIGNALLED
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(code)


def main(text: str) -> None:
    """Confine this process as the JSON `text` says and serve until the pipe closes."""
    order = json.loads(text)
    die_with_parent()
    drives_gpu, means = order["drives_gpu"], order["means"]
    held = limit_resources(order["memory_bytes"], drives_gpu=drives_gpu)
    folders, shared = order["folders"], order["shared_folders"]
    imported = [f for f in order["import_folders"] if _is_readable(f, order)]
    # The parent's own packages, which need not be those that this interpreter would find. Looking
    # for ours keeps what its folder holds: nobody may list that folder later.
    sys.path[:] = [order["package_folder"], *order["import_folders"]]
    importlib.util.find_spec("kernelwright")
    if "namespaces" in means and enter_namespaces(has_own_processes=not drives_gpu):
        held.append("network")
        if not drives_gpu:
            become_first_process(order["pipe"])
            held.append("processes")
        if mount_privately(order["mounts"]):
            held.append("cache")
    if "cache" not in held:
        folders += shared
    readable = readable_paths(order["package_folder"], imported)
    paths = landlock.Paths(
        written=folders,
        read=[*readable, *shared, *(target for pair in order["mounts"] for target in pair)],
        devices=_device_files() if drives_gpu else (),
        reads_everything=drives_gpu,
    )
    if "writes" in means and landlock.confine(paths):
        held += ["writes"] if drives_gpu else ["writes", "reads"]
    if not drives_gpu and system_calls.refuse_system_calls():
        held.append("calls")
    service = importlib.import_module(order["service"])
    service.serve(Connection(order["pipe"]), tuple(held), tuple(order["emptied_folders"]))


def _is_readable(folder: str, order: dict[str, object]) -> bool:
    """Say whether a folder of imports holds packages, or whatever else the user has there."""
    return bool(order["reads_imports"]) or "site-packages" in folder or "dist-packages" in folder


if __name__ == "__main__":
    main(sys.argv[1])
