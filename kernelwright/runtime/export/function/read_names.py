"""Finds the names that a function's lines read, in a call: all else plays no part in its result."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from kernelwright.ir.trace.refusal import is_library_file
from kernelwright.runtime.code_names import _is_module

_OWN_FOLDER = str(Path(__file__).parents[3])
_READERS = frozenset({"getattr", "hasattr", "vars", "dir", "locals", "globals", "eval", "exec"})
"""Builtins by which a line reads attributes whose names do not stand in it."""
_OF_DICTS = frozenset({"items", "values", "keys", "copy", "get", "pop", "popitem", "setdefault"})
_COPIES = frozenset({"__reduce_ex__", "__reduce__", "__dir__", "__getstate__"})


class _Reading:
    """Collects the code that runs; notes reads whose names no code shows."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.is_open = False

    def heard(self, frame: FrameType, event: str, called: object) -> None:
        code = frame.f_code
        if event == "call":
            self.codes.add(code)
        elif event == "c_call" and not self.is_open:
            self.is_open = _is_open(code, called)


def _is_open(code: CodeType, called: object) -> bool:
    name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
    if name in _COPIES:
        return True
    if _is_module(owner):
        # It looks attributes up so, by a name of the line that asks.
        return name in _OF_DICTS and code.co_name not in ("__getattr__", "__setattr__")
    is_builtin = getattr(called, "__module__", None) == "builtins"
    return is_builtin and name in _READERS and not is_library_file(code.co_filename)


class NamesRead:
    """What the code of a call reads; `reading` fills it."""

    names: frozenset[str] | None = None
    """None where a line reads attributes by names that are computed."""


@contextmanager
def reading(found: NamesRead) -> Iterator[None]:
    """Collect the names in the code that runs meanwhile, in this thread."""
    watch = _Reading()
    before = sys.getprofile()
    sys.setprofile(watch.heard)
    try:
        yield
    finally:
        sys.setprofile(before)
    # The end of this very block is Python's own.
    ours = (_OWN_FOLDER, str(contextlib.__file__))
    own = {code for code in watch.codes if not code.co_filename.startswith(ours)}
    is_known = not watch.is_open
    found.names = frozenset(n for code in own for n in _names(code)) if is_known else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        else:
            yield from _texts(constant)


def _texts(constant: object) -> Iterator[str]:
    """Yield names that stand in the code as text, such as `"bias" in self`."""
    if isinstance(constant, str) and constant.isidentifier():
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for item in constant:
            yield from _texts(item)


@contextmanager
def without(
    unread: Sequence[tuple[dict[object, object], object]],
) -> Iterator[None]:
    """Take what no line reads out of the objects meanwhile."""
    before: dict[int, tuple[dict[object, object], Mapping[object, object]]] = {}
    slots: list[tuple[dict[object, object], object, object]] = []
    try:
        for holder, key in unread:
            if isinstance(holder, dict):
                before.setdefault(id(holder), (holder, dict(dict.items(holder))))
                dict.pop(holder, key)
            else:
                slots.append((holder, key, holder[key]))
                holder.pop(key)
        yield
    finally:
        for holder, content in before.values():
            dict.clear(holder)
            dict.update(holder, content)
        for holder, key, value in slots:
            holder[key] = value
