"""The names in code, and whose code it is; the text of this file is part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import contextlib
import dis
import functools
import gc
import sys
import types

import mlx.core as mx

_MISSING = object()
_LIBRARIES = frozenset({"mlx", "numpy", "kernelwright"})
_PYTHONS_FOLDER = str(sys.modules["os"].__file__).rpartition("os.py")[0]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), mx.Dtype)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


@functools.cache
def _slot_names(kind: type) -> tuple[str, ...]:
    """List the slots of a program's own class, not of a class that is written in C."""
    found = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    names = [name for slots in found for name in ((slots,) if isinstance(slots, str) else slots)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


@functools.cache
def _cached_properties(kind: type) -> tuple[str, ...]:
    """List what objects of a class keep once it was read."""
    held = {name: v for base in reversed(kind.__mro__) for name, v in vars(base).items()}
    return tuple(n for n, v in held.items() if isinstance(v, functools.cached_property))


def _compute_cached(value: object, names: frozenset[str]) -> None:
    """Compute the cached properties of an object that are read, so that it is as after a call."""
    for name in _cached_properties(type(value)):
        if name in names:
            # What cannot be computed is for the line that reads it to tell.
            with contextlib.suppress(Exception):
                getattr(value, name)


@functools.cache
def _names_in(code: types.CodeType) -> frozenset[str]:
    """Return the names in code, those that stand in it as text among them."""
    found = set(code.co_names)
    waiting = list(code.co_consts)
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, types.CodeType):
            found |= _names_in(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            found.add(constant)
        elif isinstance(constant, (tuple, frozenset)):
            waiting.extend(constant)
    return frozenset(found)


@functools.cache
def _globals_in(code: types.CodeType) -> frozenset[str]:
    """Return the names that code looks up outside of itself."""
    inner = [_globals_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    own = (i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return frozenset(own).union(*inner)


@functools.cache
def _imports_in(code: types.CodeType) -> tuple[tuple[int, str, tuple], ...]:
    """List what code itself imports: the level, the module and the names taken from it."""
    found = []
    before = [None, None]
    for line in dis.get_instructions(code):
        if line.opname == "IMPORT_NAME":
            level = before[0] if isinstance(before[0], int) else 0
            found.append((level, line.argval, tuple(before[1] or ())))
        before = [before[1], line.argval]
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return (*found, *(each for c in inner for each in _imports_in(c)))


def _modules_in(code: types.CodeType, space: dict) -> list[str]:
    """List the modules that code itself imports."""
    found = []
    for level, module, names in _imports_in(code):
        package = str(space.get("__package__") or "").split(".")
        base = package[: len(package) - level + 1] if level else []
        whole = ".".join([*base, *([module] if module else [])])
        found += [whole, *(f"{whole}.{name}" for name in names)]
    return found


def _is_the_users(value: object) -> bool:
    """Say whether a class or function is the program's own, and not MLX's or a library's."""
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and _is_from_the_users(module)


def _is_from_the_users(module: str) -> bool:
    # A program's own file may have a name of the standard library's, as `__main__` is: where it
    # lies tells them apart.
    if module in ("__main__", __name__):
        return True
    root = module.partition(".")[0]
    if root not in sys.stdlib_module_names:
        return root not in _LIBRARIES
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and not file.startswith(_PYTHONS_FOLDER)


def _has(value: object, name: str) -> bool:
    """Say whether a value has an attribute, whatever its `__getattr__` makes up or fails at."""
    if not hasattr(type(value), "__getattr__"):
        return hasattr(value, name)
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        own = ()
    return name in own or any(name in vars(kind) for kind in type(value).__mro__)


def _functions_within(made: object) -> list[object]:
    """List the functions of which mx.compile, mx.grad, mx.vmap or their like made a callable."""
    parts = (part for part in gc.get_referents(made) if callable(part))
    return [part for part in parts if not isinstance(part, type)]


def _is_module(value: object) -> bool:
    """Say whether a value is an `mlx.nn.Module`, a dict of its attributes; imports no layers."""
    layers = sys.modules.get("mlx.nn")
    return layers is not None and isinstance(value, layers.Module)


def _attribute(holder: object, key: str) -> object:
    try:
        return getattr(holder, key)
    except (AttributeError, ValueError):
        # A variable that has no value yet.
        return _MISSING
