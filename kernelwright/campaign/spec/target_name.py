"""Follows a dotted name, such as `model.forward`, to what can be called."""

import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType, ModuleType

from kernelwright.annotation import examples_of, original_of
from kernelwright.errors import InputError
from kernelwright.validation import shown


def resolved(
    module: ModuleType, path: Path, name: str, listed: str
) -> tuple[str, Callable[..., object]]:
    """Return a function, a method of an object or an object that can be called, and its name.

    Args:
        module: where the name begins.
        path: how to call the module's place.
        name: such as `softmax`, `model.forward`, `blocks.0` or `Block.__call__`.
        listed: the names of the module's functions, for people.

    Raises:
        InputError: there is no such name, or it is a class and not an object of one.
    """
    found: object = module
    owner: object = None
    for part in name.split("."):
        owner, found = found, _member(found, part)
        if found is None:
            raise InputError(f"{path} has no function {shown(name)}; it has: {listed}.")
    if inspect.isclass(found):
        raise InputError(
            f"expected an object or a function, found the class {path}:{name}; "
            f"{_advice(module, found)}."
        )
    if inspect.isclass(owner) and callable(found) and inspect.isfunction(original_of(found)):
        return _of_only_instance(module, path, name, owner)
    if not callable(found):
        raise InputError(
            f"expected {path}:{name} to be a function of MLX arrays, found "
            f"{type(found).__name__}; {_item(name, found) or f'its functions are: {listed}'}."
        )
    return name, original_of(found)


def methods_of_objects(module: ModuleType) -> list[str]:
    """Name what may be searched of a module's objects: methods with examples, else what is called.

    The names are as on the command line: `model.forward`, or `model` where it is called itself.
    """
    objects = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_") and not isinstance(value, type | ModuleType | FunctionType)
    }
    decorated = [
        key if name == "__call__" else f"{key}.{name}"
        for key, value in objects.items()
        for name in dir(type(value))
        if _has_examples(inspect.getattr_static(type(value), name))
    ]
    return decorated or [key for key, value in objects.items() if _is_called_in_python(value)]


def _is_called_in_python(value: object) -> bool:
    """Say whether an object is of a class that says in Python, outside its library, how to call."""
    kind = type(value)
    is_library = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return not is_library and callable(value) and inspect.isfunction(kind.__call__)


def _has_examples(member: object) -> bool:
    method = getattr(member, "__func__", member)
    return callable(method) and bool(examples_of(original_of(method)))


def _of_only_instance(
    module: ModuleType, path: Path, name: str, kind: type
) -> tuple[str, Callable[..., object]]:
    """Return a class's method of the only object that the module has of it."""
    method = name.rpartition(".")[2]
    if isinstance(inspect.getattr_static(kind, method), staticmethod):
        return name, getattr(kind, method)
    instances = _instances(module, kind)
    if len(instances) != 1:
        raise InputError(
            f"expected a method of an object, found {path}:{name} of the class "
            f"{kind.__name__}; {_advice(module, kind)}."
        )
    bound = getattr(getattr(module, instances[0]), method)
    return f"{instances[0]}.{method}", original_of(bound)


def _member(holder: object, part: str) -> object:
    if part.isdigit() and isinstance(holder, list | tuple):
        return holder[int(part)] if int(part) < len(holder) else None
    if isinstance(holder, dict):
        key = int(part) if part.isdigit() and part not in holder else part
        if key in holder:
            return holder[key]
    return getattr(holder, part, None)


def _item(name: str, holder: object) -> str:
    """Say how to name an item of a list or dict that holds functions; nothing of others."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(holder, dict):
        items = holder.items()
    elif isinstance(holder, list | tuple):
        items = enumerate(holder)
    return next((f"name an item, such as {name}.{key}" for key, v in items if callable(v)), "")


def _instances(module: ModuleType, kind: type) -> list[str]:
    return [key for key, value in vars(module).items() if type(value) is kind]


def _advice(module: ModuleType, kind: type) -> str:
    if found := _instances(module, kind):
        return f"name an instance, such as {found[0]!r}"
    example = kind.__name__.lower()
    return (
        f"make an instance at the top of the file, such as {example} = {kind.__name__}(…), "
        "and name it"
    )
