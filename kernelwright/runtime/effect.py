"""Finds what a function does besides computing from its arguments, while it runs.

A kernel does none of it: it reads no clock, no file and no environment, and it prints nothing.
`kernelwright.optimize` and the export ask the same question here.
"""

import gc
import io
import logging
import os
import random
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.refusal import is_library_file
from kernelwright.runtime.call import flatten
from kernelwright.runtime.unseen_call import UnseenCalls, unseen_calls

_CLOCK = frozenset(
    {"time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"}
)
_DATABASES = frozenset({"_sqlite3", "_dbm", "_gdbm", "mmap", "_posixshmem", "_multiprocessing"})
_CALENDAR = frozenset({"localtime", "gmtime", "ctime", "asctime", "strftime"})
_SYSTEM = frozenset({"posix", "nt", "_socket", "_posixsubprocess", "_winapi", "fcntl", "select"})
_NO_SYSTEM_CALLS = frozenset({"fspath", "_path_splitroot", "_path_normpath", "strerror"})
_ENVIRONMENT = frozenset(
    vars(type(os.environ))[name].__code__
    for name in ("__getitem__", "__setitem__", "__delitem__", "__iter__", "__len__")
)
_LOGS: frozenset[CodeType] = frozenset(
    vars(kind)[name].__code__
    for kind in (logging.Logger, logging.LoggerAdapter)
    for name in ("debug", "info", "warning", "error", "exception", "critical", "log", "_log")
    if name in vars(kind)
)
"""Whether a log writes depends on its level, which may be another one at the next call."""
_LOG_LEVELS: frozenset[CodeType] = frozenset(
    vars(kind)[name].__code__
    for kind in (logging.Logger, logging.LoggerAdapter)
    for name in ("isEnabledFor", "getEffectiveLevel")
)
_MAKING_READY = ("importlib._bootstrap", "/pydantic/_internal/_model_construction.py")
"""Files that import a module, or complete a class when it is first used."""
_MOST_BYTES = 1 << 20
"""Of a constant that is compared: weights are arguments of a trace, not its constants."""


class ImpureError(UnsupportedError):
    """A function's result is not made of its arguments alone, or is not all that it does."""


@dataclass(frozen=True)
class Effect:
    """Something that a function did while it ran."""

    what: str
    """What the function does, as in `reads the clock (time.time)`."""
    line: str
    """Where in the user's file, as in ` (model.py:12)`; empty where that is not known."""

    def error(self) -> ImpureError:
        """Return it as a refusal."""
        return ImpureError(
            f"the function {self.what}{self.line}, which a kernel would not do at each call; do it "
            "outside of the function and pass what it needs as an argument."
        )


class _Watch:
    """Hears of the calls that a function makes; keeps the first that is an effect."""

    def __init__(self, root: FrameType) -> None:
        self.found: Effect | None = None
        self.unseen: UnseenCalls | None = None
        self._root = root
        self._thread = threading.get_ident()
        self._is_collecting = False

    def before_others(self, phase: str, info: Mapping[str, int]) -> None:
        """Hear first that Python's collector begins: what it does is not the function's."""
        del info
        if phase == "start" and threading.get_ident() == self._thread:
            self._is_collecting = True

    def after_others(self, phase: str, info: Mapping[str, int]) -> None:
        """Hear last that it ended, behind whoever else listens to it."""
        del info
        if phase == "stop" and threading.get_ident() == self._thread:
            self._is_collecting = False

    def heard(self, frame: FrameType, event: str, called: object) -> None:
        if self.found is not None or self._is_collecting:
            return
        if event == "call":
            what = effect_of_code(frame.f_code)
            if self.unseen is not None and not is_library_file(frame.f_code.co_filename):
                self.unseen.entered(frame)
        elif event == "c_call":
            what = effect_of_builtin(called)
        else:
            return
        if what:
            self.told(what, frame)

    def told(self, what: str, frame: FrameType) -> None:
        """Keep the first effect."""
        if self.found is None and (line := self._line(frame)) is not None:
            self.found = Effect(what, line)

    def _line(self, frame: FrameType) -> str | None:
        """Return the user's line that a call came from; None where things are made ready."""
        line, inner = "", frame
        while inner is not self._root:
            file = inner.f_code.co_filename
            if any(part in file for part in _MAKING_READY):
                return None
            if not line and not is_library_file(file) and not file.startswith("<"):
                line = f" ({file}:{inner.f_lineno})"
            if inner.f_back is None:
                break
            inner = inner.f_back
        return line


def effect_of_code(code: CodeType) -> str:
    """Say what a function of Python's library does that a kernel does not; often nothing."""
    if code.co_name in ("__getattr__", "__getitem__") and code.co_qualname.startswith("CDLL."):
        return "calls compiled code that cannot be looked into (ctypes)"
    if code in _LOGS:
        return "writes to a log"
    if code in _LOG_LEVELS:
        return "reads the level of a log"
    if code in _ENVIRONMENT:
        return "reads the environment (os.environ)"
    return ""


def effect_of_builtin(called: object) -> str:
    """Say what a function that is written in C does that a kernel does not; often nothing."""
    name = getattr(called, "__name__", "")
    module, owner = getattr(called, "__module__", None), getattr(called, "__self__", None)
    if called is print:
        return "prints"
    if called is input:
        return "asks for input"
    if called is open or called is io.open_code:
        return "opens a file (open)"
    if module == "time" and (name.removesuffix("_ns") in _CLOCK or name in _CALENDAR):
        return f"reads the clock (time.{name})"
    if module == "time" and name == "sleep":
        return "waits (time.sleep)"
    if module == "_thread" and name.startswith("start_"):
        return "starts a thread"
    if module == "atexit":
        return f"leaves something to do at the program's end (atexit.{name})"
    if isinstance(owner, type) and owner.__module__ == "datetime":
        return f"reads the clock ({name})" if name in {"now", "today", "utcnow"} else ""
    if isinstance(owner, random.Random):
        return f"draws from Python's random numbers ({name})"
    if module in _SYSTEM and name not in _NO_SYSTEM_CALLS:
        return f"asks the operating system ({name})"
    if module in _DATABASES or type(owner).__module__ in ("_socket", "_sqlite3", "sqlite3", "mmap"):
        return f"uses a file or a connection ({name})"
    if name in {"fromfile", "tofile"} and (module == "numpy" or type(owner).__module__ == "numpy"):
        return f"uses a file ({name})"
    if module == "_warnings" and name == "warn":
        return "warns (warnings.warn)"
    if isinstance(owner, io.IOBase) and not isinstance(owner, io.StringIO | io.BytesIO):
        return f"uses a file ({name})" if name in {"read", "readline", "write"} else ""
    return ""


@contextmanager
def refusing_effects() -> Iterator[None]:
    """Watch what a function does besides computing; what it raises itself comes first.

    Raises:
        ImpureError: it does something else, at the named line of the user's file.
    """
    watch = _Watch(sys._getframe())
    before = sys.getprofile()
    gc.callbacks.insert(0, watch.before_others)
    gc.callbacks.append(watch.after_others)
    with unseen_calls(watch.told) as watch.unseen:
        sys.setprofile(watch.heard)
        try:
            yield
        finally:
            sys.setprofile(before)
            gc.callbacks.remove(watch.before_others)
            gc.callbacks.remove(watch.after_others)
    if watch.found is not None:
        raise watch.found.error()


def check_same_calls(first: tuple[Graph, object], second: tuple[Graph, object]) -> None:
    """Compare two traces of a call: what is no array, and the constants, must be the same.

    Args:
        first: the graph and the result of one trace.
        second: those of a later one, which may read fewer arrays.

    Raises:
        ImpureError: something differs, which a kernel would keep as it was in one of them.
    """
    same_plain(plain_results(first[1]), plain_results(second[1]))
    if not _constants(second[0]) <= _constants(first[0]):
        raise ImpureError(
            "the function computes with a value that differs from call to call; pass it as an "
            "argument."
        )


def same_plain(one: list[str], other: list[str]) -> None:
    """Compare what two calls returned besides arrays.

    Raises:
        ImpureError: it differs.
    """
    if one == other:
        return
    pair = next((f"{a} and then {b}" for a, b in zip(one, other, strict=False) if a != b), "")
    shown = f", {pair}" if pair else ""
    raise ImpureError(
        f"the function returns a value that differs from call to call{shown}; return arrays and "
        "what does not change."
    )


def plain_results(result: object) -> list[str]:
    """List what a result holds besides arrays, in order."""
    flat = flatten(result)
    return [] if flat is None else [_shown(key) for key in flat.key if not _is_of_array(key)]


def _shown(key: object) -> str:
    is_value = isinstance(key, tuple) and len(key) == 2 and type(key[1]) is key[0]
    return repr(key[1] if is_value and isinstance(key, tuple) else key)


def _is_of_array(key: object) -> bool:
    return isinstance(key, tuple) and isinstance(key[-1], mx.Dtype)


def _constants(graph: Graph) -> set[tuple[str, bytes]]:
    return {
        (str(constant.type), bytes(constant.data))
        for _, constant in graph.constants
        if len(constant.data) <= _MOST_BYTES
    }
