"""A seccomp filter: system calls that no worker needs, refused in the kernel.

A part of a worker's first code, so only the standard library is imported.
"""

import ctypes
import errno
import platform
import struct
import sys

# linux/audit.h, linux/seccomp.h, linux/filter.h, linux/prctl.h
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER_MODE = 22, 38, 2
_X32 = 0x40000000
"""x86-64's second table of the same calls begins here."""
# asm/unistd_64.h and asm-generic/unistd.h; the newer calls have one number everywhere.
_NEWER = {
    *(424, 434, 438),  # pidfd_send_signal, pidfd_open, pidfd_getfd
    *(425, 426, 427),  # io_uring
    *(428, 429, 430, 431, 432, 433, 442),  # mounts
    *(440,),  # process_madvise
}
_REFUSED = {
    "x86_64": {
        *(41, 42, 43, 49, 50, 288),  # socket, connect, accept, bind, listen, accept4
        *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(109, 112, 135),  # setpgid, setsid, personality
        *(155, 161, 165, 166, 167, 168, 272, 308),  # roots, mounts, namespaces
        *(175, 176, 246, 313, 320, 169, 170, 171),  # modules, kernels, the machine's names
        *(248, 249, 250, 298, 300, 303, 304, 321, 323),  # keys, perf, handles, bpf, userfaultfd
    },
    "aarch64": {
        *(198, 200, 201, 202, 203, 242),
        *(117, 270, 271, 272),
        *(154, 157, 92),
        *(41, 51, 40, 39, 224, 225, 97, 268),
        *(105, 106, 104, 273, 294, 142, 161, 162),
        *(217, 218, 219, 241, 262, 264, 265, 280, 282),
    },
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_system_calls() -> bool:
    """Refuse sockets, other processes' memory, new namespaces and the like; False if it cannot."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in _ARCHITECTURES:
        return False
    code = _filter(_ARCHITECTURES[machine], sorted(_REFUSED[machine] | _NEWER))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)


def _filter(architecture: int, refused: list[int]) -> bytes:
    """Assemble the filter: another architecture's calls end the process."""
    count = len(refused)
    code = [
        _instruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        _instruction(_EQUAL, 1, 0, architecture),
        _instruction(_RETURN, 0, 0, _KILL),
        _instruction(_LOAD, 0, 0, _NUMBER_AT),
        # To the refusal, which is the last instruction.
        _instruction(_AT_LEAST, count + 1, 0, _X32),
    ]
    code += [_instruction(_EQUAL, count - i, 0, number) for i, number in enumerate(refused)]
    code += [_instruction(_RETURN, 0, 0, _ALLOW), _instruction(_RETURN, 0, 0, _REFUSE)]
    return b"".join(code)


def _instruction(operation: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)
