"""What a search knows a Python function by: its name, its file and its parameters."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType

from kernelwright.campaign.spec.target_module import package_of
from kernelwright.errors import InputError
from kernelwright.ir.trace.transformation import transformation_of
from kernelwright.runtime.export.function.statement import is_in_a_loop

Function = Callable[..., object]
_UNNAMED = "unnamed"
_NOWHERE = "<program>"


def scope_of(function: Function) -> str:
    """Return the functions inside of which a function was made, such as `make.<locals>`."""
    own = getattr(function, "__qualname__", "")
    return own.rpartition(".")[0] if "<locals>" in own else ""


def file_of(function: Function) -> str:
    """Return the file that a function or an object's class is defined in, or the program's name."""
    if (made := transformation_of(function)) is not None:
        return file_of(made.inner)
    if isinstance(function, partial):
        return file_of(function.func)
    inner = getattr(function, "__func__", function)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return code.co_filename if code is not None else getattr(inner, "__module__", "<unknown>")


def lasting_file_of(function: Function) -> str:
    """Return the file of a function, or its module in a package, as a command names it.

    `<program>` stands for a notebook's cell, whose name changes when it is run.
    """
    held = _variable_of(_owner_of(function))
    file = getattr(held.module, "__file__", None) or "" if held else file_of(function)
    if not Path(file).is_file():
        return _NOWHERE
    package = package_of(Path(file).absolute())
    module = sys.modules.get(package.module) if package else None
    is_its_own = module is not None and getattr(module, "__file__", None) == file
    return package.module if package and is_its_own else file


def place_of(function: Function) -> str:
    """Return the file from which a command finds a function by its name.

    No command finds what another function made or a lambda without a name: that has a place such
    as `<model.py:12>`, and a notebook's `<program>`.
    """
    if has_own_name(function):
        return lasting_file_of(function)
    file = file_of(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or not Path(file).is_file():
        return _NOWHERE
    return f"<{Path(file).name}:{code.co_firstlineno}>"


def has_own_name(function: Function) -> bool:
    """Say whether a variable of a module holds a function, or a definition at its top makes it."""
    return _variable_of(_owner_of(function)) is not None or _is_definition(function)


def _is_definition(function: Function) -> bool:
    """Say whether a statement at the top of a module defines a function under its own name."""
    is_made = transformation_of(function) is not None or "<" in getattr(
        function, "__qualname__", "<"
    )
    return isinstance(function, FunctionType) and not is_made


def name_of(function: Function) -> str:
    """Return the name by which a search knows a function: its variable's, or else its own.

    What a transformation returns says that it is called as the function inside of it; where no
    variable holds it, it is called `value_and_grad(loss)` and the like.

    Raises:
        InputError: it is an object or a lambda that no variable of its module holds.
    """
    if isinstance(function, MethodType):
        return f"{_name_of_object(function.__self__)}.{function.__name__}"
    if (held := _variable_of(function)) is not None:
        return held.name
    if (made := transformation_of(function)) is not None:
        return f"{made.name}({name_to_show(made.inner)})"
    if isinstance(function, partial):
        return f"partial({name_to_show(function.func)})"
    own = _name_in_class(function) or getattr(function, "__name__", "<lambda>")
    return own if own != "<lambda>" else _name_of_object(function)


def _name_in_class(function: Function) -> str:
    """Return the dotted name of a function that a class holds, such as `Ops.mish`."""
    name = getattr(function, "__qualname__", "")
    found: object = sys.modules.get(getattr(function, "__module__", ""))
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else ""


def name_to_show(function: Function) -> str:
    """Return a function's name, or that of its class where no variable holds it."""
    try:
        return name_of(function)
    except InputError:
        pass
    if isinstance(function, MethodType):
        return f"{type(function.__self__).__name__}.{function.__name__}"
    return _UNNAMED if hasattr(function, "__globals__") else type(function).__name__


def _name_of_object(value: object) -> str:
    """Return the variable of a module that holds an object."""
    if (held := _variable_of(value)) is not None:
        return held.name
    raise InputError(
        f"expected an object that a variable of its module holds, found {type(value).__name__} "
        "without a name; assign it at the top of the file or notebook."
    )


@dataclass(frozen=True)
class _Variable:
    """What holds an object at the top of a module, such as `step` or `blocks.0`."""

    module: ModuleType
    name: str


def _owner_of(function: Function) -> object:
    return function.__self__ if isinstance(function, MethodType) else function


def _variable_of(value: object) -> _Variable | None:
    """Return the variable that holds an object, its own name first; a loop's counts for nothing."""
    own = getattr(value, "__name__", "")
    for module in _homes_of(value):
        space = vars(module)
        names = [n for n, v in space.items() if v is value and not n.startswith("_")]
        lasting = [n for n in sorted(names, key=lambda n: n != own) if not is_in_a_loop(space, n)]
        if lasting:
            return _Variable(module, lasting[0])
        for name, holder in tuple(space.items()):
            key = None if name.startswith("_") else _key_of(value, holder)
            if key is not None:
                return _Variable(module, f"{name}.{key}")
    return None


def _homes_of(value: object) -> list[ModuleType]:
    """Return the modules that may hold an object, the likely ones first.

    They are its class's or function's and the program's; any other may hold an object of a
    library's class, as `proj = nn.Linear(8, 8)` of an imported file does.
    """
    inner = _innermost(value)
    is_function = hasattr(inner, "__globals__")
    names = ((inner if is_function else type(inner)).__module__, "__main__")
    others = () if is_function else tuple(sys.modules)
    found = map(sys.modules.get, dict.fromkeys((*names, *others)))
    return [m for m in found if isinstance(m, ModuleType)]


def _innermost(value: object) -> object:
    """Return the function inside of all that was made of it."""
    if (made := transformation_of(value)) is not None:
        return _innermost(made.inner)
    return _innermost(value.func) if isinstance(value, partial) else value


def _key_of(value: object, holder: object) -> str | None:
    """Return the place of an object in a list, tuple or dict, as a command names it."""
    if type(holder) is dict:
        keys = (k for k, v in holder.items() if v is value)
        return next((str(k) for k in keys if _is_word(k)), None)
    if not isinstance(holder, list | tuple):
        return None
    return next((str(i) for i, v in enumerate(holder) if v is value), None)


def _is_word(key: object) -> bool:
    """Say whether a command can name the item of a dict that has this key."""
    return key.isidentifier() if isinstance(key, str) else type(key) is int and key >= 0
