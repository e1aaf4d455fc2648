"""Sees which names a function's values have, while MLX traces it."""

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol

import mlx.core as mx

from kernelwright.ir.graph.sighting import Sighting
from kernelwright.ir.trace.member import member_paths, path_words
from kernelwright.ir.trace.placement import names_cpu

_OWN = str(Path(__file__).parents[2])
_STDLIB = (sysconfig.get_paths()["stdlib"], "<frozen")
_MLX = str(Path(mx.__file__).parent) + os.sep
_GENERATED = "<string>"
"""The file of what Python writes itself, such as how a named tuple or a dataclass is made."""
_MOST_ITEMS = 64
_MOST_SIGHTINGS = 20_000
_MOST_ARGUMENTS = 2
_UNNAMED = frozenset({"<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})


class _Tracer(Protocol):
    def __call__(self, frame: FrameType, event: str, arg: object) -> "_Tracer | None": ...


@dataclass
class _Call:
    """A function of the user's that is running."""

    path: tuple[str, ...]
    code: CodeType
    words: str
    """What its result is called where it is called; empty where that has no name."""
    line: int
    """The line that runs."""
    caller: "_Call | None"
    caller_line: int
    globals: Mapping[str, object]
    owner: object = None
    seen: dict[str, object] = field(default_factory=dict)


@dataclass
class Recorder:
    """Collects the arrays that a function names or that its calls return, each with its names.

    The frames of MLX's own modules are seen as calls only, Python's library not at all.
    """

    file: str
    """Where the traced function is written."""
    arrays: dict[int, mx.array] = field(default_factory=dict)
    sightings: dict[int, list[Sighting]] = field(default_factory=dict)
    on_cpu: dict[str, str] = field(default_factory=dict)
    """Names of functions that name a stream of the CPU, by file and line."""
    is_done: bool = False
    """Whether the function has returned; what fails later fails in the export."""
    _calls: dict[FrameType, _Call] = field(default_factory=dict)
    _members: dict[int, dict[int, tuple[str, ...]]] = field(default_factory=dict)
    _count: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread; a debugger that watches it already is not disturbed."""
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            self._calls.clear()

    def forget(self) -> None:
        """Let go of the arrays that were seen."""
        self.arrays.clear()
        self.sightings.clear()
        self._members.clear()
        self._count = 0

    def _enter(self, frame: FrameType, event: str, arg: object) -> "_Tracer | None":
        file = frame.f_code.co_filename
        is_generated = file == _GENERATED
        is_library = (is_generated or file.startswith((_OWN, *_STDLIB))) and file != self.file
        if is_library or self._count >= _MOST_SIGHTINGS:
            return None
        is_mlx = file.startswith(_MLX)
        caller = self._caller(frame)
        if _is_wrapper(frame.f_code):
            return None
        if is_mlx and (caller is None or self._is_within_mlx(frame)):
            return None
        if not is_mlx and names_cpu(frame):
            place = f"{Path(file).name}:{frame.f_code.co_firstlineno}"
            self.on_cpu.setdefault(place, frame.f_code.co_name)
        self._calls[frame] = self._call(frame, caller)
        frame.f_trace_lines = not is_mlx
        return self._leave if is_mlx else self._watch

    def _caller(self, frame: FrameType) -> _Call | None:
        """Return the call that a frame runs in, with what it has assigned so far."""
        above = frame.f_back
        while above is not None and above not in self._calls:
            above = above.f_back
        if above is None:
            return None
        call = self._calls[above]
        if not above.f_code.co_filename.startswith(_MLX):
            self._look(above, call)
        return call

    def _is_within_mlx(self, frame: FrameType) -> bool:
        """Say whether a function of MLX was called by another one, a module's call aside."""
        above = frame.f_back
        is_inner = above is not None and above.f_code.co_filename.startswith(_MLX)
        return is_inner and frame.f_code.co_name != "__call__"

    def _call(self, frame: FrameType, caller: _Call | None) -> _Call:
        values = dict(frame.f_locals)
        path, line = (caller.path, caller.line) if caller else ((), 0)
        words, part, owner = self._named(frame.f_code, values, caller)
        if caller is not None and part:
            path = (*path, *part)
        code = frame.f_code
        at, outside = frame.f_lineno, frame.f_globals
        call = _Call(path, code, words, at, caller, line, outside, owner, values)
        if caller is not None:
            for name, value in values.items():
                self._see_argument(name, value, call)
        return call

    def _named(
        self, code: CodeType, values: Mapping[str, object], caller: _Call | None
    ) -> tuple[str, tuple[str, ...], object]:
        """Return what a call's result is called, its part of a path, and its object."""
        owner = values.get("self")
        above = caller.owner if caller else None
        if code.co_name in _UNNAMED:
            return "", (), owner if owner is not None else above
        if owner is None or code.co_name != "__call__":
            own = owner if owner is not None else above
            words = f"{code.co_name}({_arguments(code, values, caller)})"
            return words, (code.co_name.strip("_") or code.co_name,), own
        found = path_words(self._path(owner, caller)) or (type(owner).__name__,)
        return found[-1], found, owner

    def _path(self, owner: object, caller: _Call | None) -> tuple[str, ...]:
        """Return how the caller reaches an object: through its own, or by a variable."""
        if caller is None:
            return ()
        if caller.owner is not None and (path := self._paths_of(caller.owner).get(id(owner))):
            return path
        outside = caller.globals
        named = {name: outside[name] for name in caller.code.co_names if name in outside}
        for name, value in {**caller.seen, **named}.items():
            if value is owner and name != "self":
                return (name,)
        for name, value in {**caller.seen, **named}.items():
            if not isinstance(value, mx.array) and (path := self._paths_of(value).get(id(owner))):
                return (name, *path)
        return ()

    def _paths_of(self, owner: object) -> dict[int, tuple[str, ...]]:
        if id(owner) not in self._members:
            self._members[id(owner)] = member_paths(owner)
        return self._members[id(owner)]

    def _watch(self, frame: FrameType, event: str, arg: object) -> "_Tracer | None":
        call = self._calls.get(frame)
        if call is None:
            return None
        self._look(frame, call)
        call.line = frame.f_lineno
        return self._leave(frame, event, arg) if event == "return" else self._watch

    def _look(self, frame: FrameType, call: _Call) -> None:
        """See what the last line has assigned."""
        for name, value in frame.f_locals.items():
            if call.seen.get(name) is not value:
                call.seen[name] = value
                self._see(name, value, call.path, call.line, frame.f_code)

    def _leave(self, frame: FrameType, event: str, arg: object) -> "_Tracer | None":
        if event != "return":
            return self._leave
        call = self._calls.pop(frame, None)
        if call is None:
            return None
        self._see("", arg, call.path, call.line, frame.f_code)
        if call.caller is not None and call.words:
            # A call's path is its caller's and the way from there; its last part is its name.
            around = call.path[: max(len(call.caller.path), len(call.path) - 1)]
            code = call.caller.code
            self._see(call.words, arg, around, call.caller_line, code, is_call=True)
        return None

    def _see_argument(self, name: str, value: object, call: _Call) -> None:
        """See an argument that had no name before it was passed."""
        is_new = isinstance(value, mx.array) and id(value) not in self.sightings
        if is_new and call.words and call.caller is not None:
            of = call.path[-1] if call.path else call.words
            words = f"input of {of}" if "(" not in call.words else f"{name} of {of}"
            self._see(words, value, call.caller.path, call.caller_line, call.caller.code)

    def _see(
        self,
        name: str,
        value: object,
        path: tuple[str, ...],
        line: int,
        code: CodeType,
        *,
        is_call: bool = False,
    ) -> None:
        file = "" if code.co_filename == self.file else Path(code.co_filename).name
        for suffix, array in _arrays(value):
            self._count += 1
            self.arrays[id(array)] = array
            # A field of a result without a name goes by the field's.
            words = f"{name}{suffix}" if name else suffix.removeprefix(".")
            sighting = Sighting(self._count, path, words, line, file, is_call)
            self.sightings.setdefault(id(array), []).append(sighting)


def _arrays(value: object, suffix: str = "", deep: int = 2) -> Iterator[tuple[str, mx.array]]:
    """Yield the arrays of a value and of small nests, each with its place."""
    if isinstance(value, mx.array):
        yield suffix, value
        return
    if not deep:
        return
    items: list[tuple[str, object]] = []
    if isinstance(value, list | tuple) and len(value) <= _MOST_ITEMS:
        names = getattr(value, "_fields", None)
        items = [(f".{names[i]}" if names else f"[{i}]", member) for i, member in enumerate(value)]
    elif type(value) is dict and len(value) <= _MOST_ITEMS:
        items = [(f".{key}", member) for key, member in value.items()]
    elif is_dataclass(value) and not isinstance(value, type):
        items = [(f".{f.name}", getattr(value, f.name, None)) for f in fields(value)]
    for place, member in items:
        yield from _arrays(member, suffix + place, deep - 1)


def _is_wrapper(code: CodeType) -> bool:
    """Say whether a function is a decorator's: it takes whatever it is given, and passes it on."""
    takes_all = code.co_flags & inspect.CO_VARARGS and code.co_flags & inspect.CO_VARKEYWORDS
    return bool(takes_all and code.co_freevars)


def _arguments(code: CodeType, values: Mapping[str, object], caller: _Call | None) -> str:
    """Name the arrays that a call is given, as its caller calls them."""
    count = code.co_argcount + code.co_kwonlyargcount
    names = [n for n in code.co_varnames[:count] if isinstance(values.get(n), mx.array)]
    outside = {id(v): n for n, v in reversed((caller.seen if caller else {}).items())}
    shown = [outside.get(id(values[name]), name) for name in names]
    rest = ["…"] if len(shown) > _MOST_ARGUMENTS else []
    return ", ".join([*shown[:_MOST_ARGUMENTS], *rest])
