"""What a person wants faster, as Python holds it: functions, files, and their example inputs."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType

from kernelwright.annotation import Example, original_of
from kernelwright.campaign import Captured, Subject, capture_subjects, load_subjects
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.campaign.spec.input_value import Inputs, calls, decorated_calls, parameters_of
from kernelwright.campaign.spec.search_target import Recall, load_each
from kernelwright.campaign.spec.subject import subject_of
from kernelwright.errors import InputError
from kernelwright.service.python.origin import name_to_show, place_of
from kernelwright.service.searched_input import recall_from

Function = Callable[..., object]
Target = Function | str | Path
"""A function, a method, an object that is called, or `FILE.py:function` as on the command line."""


def captured(
    target: Target | Sequence[Target], inputs: Inputs | None, store: str | None = None
) -> Captured:
    """Read targets and trace each of their functions.

    Where nobody says what inputs look like, those count that `store` has searches for.

    Raises:
        InputError: a target is none, its inputs are missing or wrong, or MLX cannot trace it.
        UnsupportedError: a function computes what no graph can hold.
    """
    targets = _listed(target)
    if inputs is not None and len(targets) > 1:
        raise InputError(
            f"expected one function for the inputs, found {len(targets)} targets; give each its "
            "own by @kernelwright.example, or search them one by one."
        )
    return capture_subjects(load_each(targets, lambda each: subjects(each, inputs, store)))


def subjects(
    target: Target, inputs: Inputs | None = None, store: str | None = None
) -> tuple[Subject, ...]:
    """Return a target's functions, each with every example of its inputs.

    Where nobody says what inputs look like, those count that `store` has searches for.

    Raises:
        InputError: there is no such target, or nobody says what its inputs look like.
    """
    if isinstance(target, str | Path):
        return _from_text(str(target), inputs, recall_from(store))
    return function_subjects(target, inputs, recall_from(store))


def function_subjects(
    target: Function, inputs: Inputs | None, recall: Recall
) -> tuple[Subject, ...]:
    """Return a function with every example of its inputs: those given, its own or recalled ones.

    Raises:
        InputError: it is no function, or nobody says what its inputs look like.
    """
    if not callable(target) or isinstance(target, type):
        found = f"the class {target.__name__}" if isinstance(target, type) else repr(target)
        raise InputError(
            f"expected a function, a method or an object that is called, or the text "
            f"'FILE.py:function', found {found}."
        )
    function = original_of(target)
    name, file = name_to_show(function), place_of(function)
    home = _module_of(function)
    examples = (
        decorated_calls(function, name, home)
        if inputs is None
        else calls(inputs, parameters_of(function), home)
    )
    if not examples:
        origins = subject_of(name, function, file, Example(())).origins
        texts = [one for origin in origins for one in recall(origin)]
        examples = _recalled(texts, function)
    if not examples:
        raise InputError(
            f"expected inputs for {name}, found none: it has no @kernelwright.example, and no "
            "search of it is in the store; add inputs=['f16[8,512]', …], or arrays."
        )
    return tuple(subject_of(name, function, file, example) for example in examples)


def _recalled(texts: Sequence[Sequence[str]], function: Function) -> list[Example]:
    """Read inputs that were searched; those of a class that is gone are left out."""
    found: list[Example] = []
    for one in texts:
        with suppress(InputError):
            found += read_inputs(one, parameters_of(function), _module_of(function))
    return found


def _module_of(function: Function) -> str:
    """Return the module of a function, or of the class of an object that is called."""
    return str(getattr(function, "__module__", ""))


def _from_text(target: str, inputs: Inputs | None, recall: Recall) -> tuple[Subject, ...]:
    """Read a file's functions; inputs for one go to it as the command line has them."""
    if inputs is None:
        return load_subjects(target, recall=recall)
    # Any input at all says that the file's own are not asked for. The classes of inputs are the
    # file's, so it comes first.
    (one, *_) = load_subjects(target, ["0"], loaded=list(_modules_of(inputs)))
    read = calls(inputs, parameters_of(one.function), _module_of(one.function))
    return tuple(subject_of(one.name, one.function, one.file, example) for example in read)


def _modules_of(value: object) -> Iterator[ModuleType]:
    """Yield the modules that the classes of objects come from: to them each is its file."""
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = (*value.keys(), *value.values())
    elif isinstance(value, list | tuple):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, each.name, None) for each in fields(value))
    for part in parts:
        yield from _modules_of(part)
    named = value if isinstance(value, type | FunctionType) else type(value)
    module = sys.modules.get(named.__module__)
    if module is not None and getattr(module, "__file__", None):
        yield module


def _listed(target: Target | Sequence[Target]) -> Sequence[Target]:
    if isinstance(target, list | tuple):
        if not target:
            raise InputError("expected a function or 'FILE.py:function', found an empty list.")
        return target
    return [target]  # type: ignore[list-item]
