"""The functions that a user's file offers, each with example inputs."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from kernelwright.annotation import Example, original_of
from kernelwright.campaign.spec.example_inputs import EXAMPLE_INPUTS, from_example_inputs
from kernelwright.campaign.spec.input_nest import INNER_MEMBER, INNER_RECORD
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.campaign.spec.input_value import decorated_calls, parameters_of
from kernelwright.campaign.spec.subject import Function, NamedFunction, Subject, subject_at
from kernelwright.campaign.spec.target_module import CATALOG, open_target
from kernelwright.campaign.spec.target_name import methods_of_objects, resolved
from kernelwright.errors import InputError, raise_all
from kernelwright.ir.graph.dtype import Dtype

Each = TypeVar("Each")
CATALOG_DTYPE = "bf16"
Recall = Callable[[str], Sequence[tuple[str, ...]]]
"""Returns the inputs that were typed for a function before, by its `origin`."""


def load_subjects(
    target: str,
    inputs: Sequence[str] = (),
    *,
    folder: Path = Path(),
    recall: Recall = lambda origin: (),
    recalls_all: bool = False,
    loaded: Sequence[ModuleType] = (),
) -> tuple[Subject, ...]:
    """Read `FILE.py[:function]`, `package.module[:function]` or `catalog:NAME[:dtype]`.

    The function may be a dotted name: a method of an object, such as `model.forward`, or an
    object that is called. `inputs` are written as on the command line and win over the file's
    own. Files and modules are found from `folder`, modules also where Python finds them. Without
    `inputs`, functions that the file says nothing of take those that `recall` returns; all do
    with `recalls_all`, beside the file's own. A file that one of the modules `loaded` was read from
    is that module.

    Raises:
        InputError: the file, the function or the inputs are not there or do not parse.
    """
    if target.startswith(CATALOG):
        return (_from_catalog(target.removeprefix(CATALOG), inputs),)
    if inputs:
        # Parsed first: nothing of the user's runs for a typing error. A class is known later.
        named = (INNER_RECORD, INNER_MEMBER)
        read_inputs([text for text in inputs if not any(p.search(text) for p in named)])
    module, path, name = open_target(target, folder, loaded)
    functions = _chosen(module, path, name)
    if inputs:
        return _only(functions, path, inputs)
    subjects = load_each(functions, lambda f: _from_decorators(f, path))
    decorated = {s.name for s in subjects}
    undecorated = [f for f in functions if f.name not in decorated]
    unknown = [] if hasattr(module, EXAMPLE_INPUTS) else undecorated
    asked = functions if recalls_all else unknown
    recalled = [s for f in asked for s in _recalled(f, path, recall)]
    is_needed = not subjects and not recalled
    subjects += from_example_inputs(module, undecorated, path, is_needed=is_needed)
    return (*subjects, *recalled)


def load_each(targets: Iterable[Each], load: Callable[[Each], Sequence[Subject]]) -> list[Subject]:
    """Load the functions of several targets.

    Raises:
        InputError: some cannot be loaded; tells the faults of all.
    """
    found: list[Subject] = []
    faults: list[InputError] = []
    for target in targets:
        try:
            found += load(target)
        except InputError as e:
            faults.append(e)
    raise_all(faults)
    return found


def _from_catalog(target: str, inputs: Sequence[str]) -> Subject:
    # Every task of the catalog is a module's worth of MLX code, which few searches need.
    from kernelwright import catalog

    name, _, dtype = target.partition(":")
    entry = catalog.find(name)
    call = Example(entry.types(Dtype.parse(dtype or CATALOG_DTYPE)))
    if inputs:
        call = read_inputs(inputs)[0]
    return subject_at(_named(entry.function), Path(f"{CATALOG}{name}"), call)


def _named(function: Function) -> NamedFunction:
    return NamedFunction(getattr(function, "__name__", type(function).__name__), function)


def _chosen(module: ModuleType, path: Path, name: str | None) -> list[NamedFunction]:
    named = {key: original_of(v) for key, v in vars(module).items() if callable(v)}
    offered = {
        key: value
        for key, value in named.items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not key.startswith("_")
        and key != EXAMPLE_INPUTS
    }
    if name is None:
        if not offered:
            raise _no_function(module, path)
        return [NamedFunction(key, value, module.__name__) for key, value in offered.items()]
    listed = ", ".join((*offered, *methods_of_objects(module))) or "none"
    return [NamedFunction(*resolved(module, path, name, listed), module.__name__)]


def _no_function(module: ModuleType, path: Path) -> InputError:
    methods = methods_of_objects(module)
    advice = (
        f"name a method of an object, such as {path}:{methods[0]}; it has: {', '.join(methods)}"
        if methods
        else "define one at the top"
    )
    return InputError(f"expected a function in {path}, found none; {advice}.")


def _only(
    functions: Sequence[NamedFunction], path: Path, inputs: Sequence[str]
) -> tuple[Subject, ...]:
    if len(functions) > 1:
        names = ", ".join(f.name for f in functions)
        raise InputError(
            f"{path} has several functions ({names}); say which one the inputs are for, "
            f"as {path}:{functions[0].name}."
        )
    return _typed(functions[0], path, inputs)


def _typed(named: NamedFunction, path: Path, inputs: Sequence[str]) -> tuple[Subject, ...]:
    calls = read_inputs(inputs, parameters_of(named.function), named.module)
    made = [subject_at(named, path, call) for call in calls]
    return tuple(replace(subject, written=tuple(inputs)) for subject in made)


def _recalled(named: NamedFunction, path: Path, recall: Recall) -> Iterator[Subject]:
    """Yield the calls that were typed before, if the function still takes them."""
    origins = subject_at(named, path, Example(())).origins
    for texts in (texts for origin in origins for texts in recall(origin)):
        try:
            typed = _typed(named, path, texts)
        except InputError:
            # A class or a parameter that they name is gone.
            continue
        for subject in typed:
            try:
                inspect.signature(named.function).bind(*subject.inputs, **subject.keywords)
            except (TypeError, ValueError):
                continue
            yield subject


def _from_decorators(named: NamedFunction, path: Path) -> list[Subject]:
    calls = decorated_calls(named.function, named.name, named.module)
    return [subject_at(named, path, call) for call in calls]
