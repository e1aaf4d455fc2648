"""What a function can refer to: closures, globals that it names, members of its objects."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType

import mlx.core as mx
import numpy as np

Function = Callable[..., object]
_MOST_OBJECTS = 100_000


def reachable(fn: Function, *given: object) -> Iterator[object]:
    """Yield what `fn` can refer to: closures, globals that it names, and so on inwards.

    What it is `given` is walked, too.
    """
    frontier: list[object] = [*given, *getattr(fn, "__dict__", {}).values(), fn]
    seen: dict[int, object] = {}
    while frontier and len(seen) < _MOST_OBJECTS:
        value = frontier.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, FunctionType | MethodType | partial):
            frontier += _references(value)
        elif isinstance(value, dict):
            frontier += [*dict.values(value), *getattr(value, "__dict__", {}).values()]
            frontier += _called(value)
        elif isinstance(value, list | tuple):
            frontier += value
        elif not isinstance(value, mx.array | np.ndarray | type | ModuleType) and _is_users(value):
            frontier += [*getattr(value, "__dict__", {}).values(), *_called(value)]


def named_arrays(fn: Function) -> dict[str, mx.array]:
    """Return the arrays that `fn` itself names: its defaults, then closures, then globals."""
    own = fn.func if isinstance(fn, partial) else fn
    own = getattr(own, "__func__", own)
    if not isinstance(own, FunctionType):
        return {}
    code, given = own.__code__, own.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    found: dict[str, object] = dict(zip(positional, given, strict=True))
    found |= own.__kwdefaults__ or {}
    for name, cell in zip(code.co_freevars, own.__closure__ or (), strict=True):
        with suppress(ValueError):
            found.setdefault(name, cell.cell_contents)
    for name in code.co_names:
        found.setdefault(name, own.__globals__.get(name))
    return {name: value for name, value in found.items() if isinstance(value, mx.array)}


def _called(value: object) -> list[object]:
    """List the methods of an object that its user wrote; it may call any of them."""
    found: list[object] = []
    for kind in type(value).__mro__:
        root = kind.__module__.partition(".")[0]
        if root != "__main__" and root in {"mlx", *sys.stdlib_module_names}:
            continue
        # Asking a member may change the class: one of pydantic's builds what it has put off.
        for member in tuple(vars(kind).values()):
            inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
            found += [inner] if isinstance(inner, FunctionType) else []
    return found


def _is_users(value: object) -> bool:
    root = getattr(type(value), "__module__", "").partition(".")[0]
    return root == "__main__" or root not in sys.stdlib_module_names


def _references(fn: FunctionType | MethodType | partial[object]) -> list[object]:
    if isinstance(fn, partial):
        return [fn.func, *fn.args, *fn.keywords.values()]
    if isinstance(fn, MethodType):
        return [fn.__self__, fn.__func__]
    found = [getattr(fn, "__wrapped__", None), *(fn.__defaults__ or ())]
    found += (fn.__kwdefaults__ or {}).values()
    for cell in fn.__closure__ or ():
        # A variable of the enclosing function may have no value yet.
        with suppress(ValueError):
            found.append(cell.cell_contents)
    names = _names_in(fn.__code__)
    named = [fn.__globals__[name] for name in names if name in fn.__globals__]
    modules = [value for value in named if isinstance(value, ModuleType)]
    # What it names may be an attribute of a module that it names, such as `layers.weight`.
    within = [vars(m)[name] for m in modules for name in names if name in vars(m)]
    return [*found, *named, *(value for value in within if not isinstance(value, ModuleType))]


def _names_in(code: CodeType) -> frozenset[str]:
    inner = [_names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(code.co_names).union(*inner)
