"""What a search knows a Python function by: its name, its file and its parameters."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import MethodType

from kernelwright.campaign.spec.search_target import package_of
from kernelwright.errors import InputError

Function = Callable[..., object]
_UNNAMED = "unnamed"
_NOWHERE = "<program>"


def parameters_of(function: Function) -> tuple[str, ...]:
    """Return the names of a function's parameters; none where Python cannot tell."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def file_of(function: Function) -> str:
    """Return the file that a function or an object's class is defined in, or the program's name."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return code.co_filename if code is not None else getattr(inner, "__module__", "<unknown>")


def lasting_file_of(function: Function) -> str:
    """Return the file of a function, or its module in a package, as a command names it.

    `<program>` stands for a notebook's cell, whose name changes when it is run.
    """
    file = file_of(function)
    if not Path(file).is_file():
        return _NOWHERE
    package = package_of(Path(file).absolute())
    module = sys.modules.get(package.module) if package else None
    is_its_own = module is not None and getattr(module, "__file__", None) == file
    return package.module if package and is_its_own else file


def place_of(function: Function) -> str:
    """Return the file from which a command finds a function by its name, else `<program>`.

    No command finds what another function made, a lambda without a name, or a notebook's.
    """
    inner = inspect.unwrap(getattr(function, "__func__", function))
    is_local = "<" in getattr(inner, "__qualname__", "")
    try:
        name_of(function)
    except InputError:
        return _NOWHERE
    return _NOWHERE if is_local else lasting_file_of(function)


def name_of(function: Function) -> str:
    """Return the name by which a search knows a function: its own, or that of its object.

    Raises:
        InputError: it is an object or a lambda that no variable of its module holds.
    """
    if isinstance(function, MethodType):
        return f"{_name_of_object(function.__self__)}.{function.__name__}"
    own = getattr(function, "__name__", "<lambda>")
    return own if own != "<lambda>" else _name_of_object(function)


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
    kind = value if hasattr(value, "__globals__") else type(value)
    for module in (sys.modules.get(kind.__module__), sys.modules.get("__main__")):
        names = [n for n, v in vars(module).items() if v is value] if module else []
        if names and not names[0].startswith("_"):
            return names[0]
    raise InputError(
        f"expected an object that a variable of its module holds, found {type(value).__name__} "
        "without a name; assign it at the top of the file or notebook."
    )
