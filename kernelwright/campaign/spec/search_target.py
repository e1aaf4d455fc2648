"""The functions that a user's file offers, each with example inputs."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from kernelwright.annotation import Example, original_of
from kernelwright.campaign.spec.input_nest import (
    INNER_MEMBER,
    INNER_RECORD,
    replaced,
    values_in,
)
from kernelwright.campaign.spec.input_text import is_type, read_inputs, read_type, written
from kernelwright.campaign.spec.input_value import decorated_calls, parameters_of
from kernelwright.campaign.spec.target_module import CATALOG, open_target, package_of
from kernelwright.campaign.spec.target_name import methods_of_objects, resolved
from kernelwright.errors import InputError, UsageError, raise_all
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Function = Callable[..., object]
Each = TypeVar("Each")
EXAMPLE_INPUTS = "example_inputs"
CATALOG_DTYPE = "bf16"
_TYPE = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\]")
_HOW = (
    f"write one as -i 'bf16[2048,4096]', define {EXAMPLE_INPUTS}() in the file, "
    "or decorate the function with @kernelwright.example"
)


@dataclass(frozen=True)
class Subject:
    """One function of a user's file at one choice of example inputs."""

    name: str
    function: Function
    inputs: tuple[object, ...]
    keywords: Mapping[str, object]
    file: str
    written: tuple[str, ...] = ()
    """The inputs as somebody typed them, or may type them; empty where they have no text."""

    @property
    def place(self) -> str:
        """Where it is, as on the command line."""
        return f"{self.file}:{self.name}"

    @property
    def origin(self) -> str:
        """Where it is, wherever one stands."""
        path = Path(self.file)
        return f"{path.absolute() if path.is_file() else path}:{self.name}"

    @property
    def origins(self) -> tuple[str, ...]:
        """Its origin, then that by its module or file, where a package makes it both."""
        path = Path(self.file)
        module = sys.modules.get(self.file)
        package = package_of(path.absolute()) if path.is_file() else None
        other = package.module if package else getattr(module, "__file__", None)
        return (self.origin, *([f"{other}:{self.name}"] if other else []))


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
    subjects += _from_example_inputs(module, undecorated, path, is_needed=is_needed)
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


def parse_input(text: str) -> tuple[str | None, TensorType]:
    """Read `bf16[2048,4096]`, or `mask=bool[16,16]` for a keyword input.

    Raises:
        InputError: it is no such type.
    """
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"expected an input such as 'bf16[2048,4096]' or 'mask=bool[16,16]', found {text!r}."
        )
    extents = [extent.strip() for extent in match["shape"].split(",") if extent.strip()]
    shape = tuple(map(int, extents))
    if 0 in shape:
        raise InputError(f"expected sizes of at least 1, found {text!r}.")
    return match["name"], TensorType(shape, Dtype.parse(match["dtype"]))


def _from_catalog(target: str, inputs: Sequence[str]) -> Subject:
    # Every task of the catalog is a module's worth of MLX code, which few searches need.
    from kernelwright import catalog

    name, _, dtype = target.partition(":")
    entry = catalog.find(name)
    call = Example(entry.types(Dtype.parse(dtype or CATALOG_DTYPE)))
    if inputs:
        call = read_inputs(inputs)[0]
    return _subject(_named(entry.function), Path(f"{CATALOG}{name}"), call)


@dataclass(frozen=True)
class _Named:
    """Something that can be called, and the name by which it was found."""

    name: str
    function: Function
    module: str = ""
    """Whose classes the records among its inputs are."""


def _named(function: Function) -> _Named:
    return _Named(getattr(function, "__name__", type(function).__name__), function)


def _chosen(module: ModuleType, path: Path, name: str | None) -> list[_Named]:
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
        return [_Named(key, value, module.__name__) for key, value in offered.items()]
    listed = ", ".join((*offered, *methods_of_objects(module))) or "none"
    return [_Named(*resolved(module, path, name, listed), module.__name__)]


def _no_function(module: ModuleType, path: Path) -> InputError:
    methods = methods_of_objects(module)
    advice = (
        f"name a method of an object, such as {path}:{methods[0]}; it has: {', '.join(methods)}"
        if methods
        else "define one at the top"
    )
    return InputError(f"expected a function in {path}, found none; {advice}.")


def _only(functions: Sequence[_Named], path: Path, inputs: Sequence[str]) -> tuple[Subject, ...]:
    if len(functions) > 1:
        names = ", ".join(f.name for f in functions)
        raise InputError(
            f"{path} has several functions ({names}); say which one the inputs are for, "
            f"as {path}:{functions[0].name}."
        )
    return _typed(functions[0], path, inputs)


def _typed(named: _Named, path: Path, inputs: Sequence[str]) -> tuple[Subject, ...]:
    calls = read_inputs(inputs, parameters_of(named.function), named.module)
    made = [_subject(named, path, call) for call in calls]
    return tuple(replace(subject, written=tuple(inputs)) for subject in made)


def _recalled(named: _Named, path: Path, recall: Recall) -> Iterator[Subject]:
    """Yield the calls that were typed before, if the function still takes them."""
    origins = _subject(named, path, Example(())).origins
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


def _from_decorators(named: _Named, path: Path) -> list[Subject]:
    calls = decorated_calls(named.function, named.name, named.module)
    return [_subject(named, path, call) for call in calls]


def _from_example_inputs(
    module: ModuleType, functions: Sequence[_Named], path: Path, *, is_needed: bool
) -> list[Subject]:
    make = getattr(module, EXAMPLE_INPUTS, None)
    if make is None:
        if is_needed:
            raise InputError(f"{path} does not say what its inputs look like; {_HOW}.")
        return []
    made = _called(make, path)
    if isinstance(made, dict):
        return _by_name(made, functions, path, is_needed=is_needed)
    if not functions:
        return []
    call = Example(tuple(made) if isinstance(made, list | tuple) else (made,))
    if len(functions) > 1:
        names = ", ".join(f.name for f in functions)
        raise InputError(
            f"{path} has several functions ({names}) and one set of inputs; name one as "
            f"{path}:{functions[0].name}, or let {EXAMPLE_INPUTS}() return a dict by name."
        )
    return [_subject(functions[0], path, call)]


def _by_name(
    made: Mapping[str, object], functions: Sequence[_Named], path: Path, *, is_needed: bool
) -> list[Subject]:
    named = [f for f in functions if f.name in made]
    if is_needed and not named:
        wanted, found = ", ".join(f.name for f in functions), ", ".join(map(str, made)) or "nothing"
        raise InputError(
            f"expected {EXAMPLE_INPUTS}() of {path} to hold inputs for {wanted}, found {found}; "
            f"{_HOW}."
        )
    return [_subject(f, path, _as_example(made[f.name])) for f in named]


def _as_example(value: object) -> Example:
    return Example(tuple(value) if isinstance(value, list | tuple) else (value,))


def _called(make: Function, path: Path) -> object:
    try:
        return make()
    except (Exception, SystemExit) as e:
        raise InputError(
            f"{EXAMPLE_INPUTS}() of {path} raised {type(e).__name__}: {e}; it takes no arguments "
            "and returns a tuple of arrays, or a dict of such tuples by function name."
        ) from e


def _subject(named: _Named, path: Path, call: Example) -> Subject:
    subject = Subject(
        name=named.name,
        function=named.function,
        inputs=tuple(map(_array, call.inputs)),
        keywords={name: _array(value) for name, value in call.keywords},
        file=str(path),
    )
    return replace(subject, written=written(call))


def subject_of(name: str, function: Function, file: str, call: Example) -> Subject:
    """Return a function that is at hand, as one that was read from a file."""
    return _subject(_Named(name, function), Path(file), call)


def _array_of_type(leaf: object) -> object:
    return _array(leaf) if is_type(leaf) else leaf


def _array(value: object) -> object:
    """Make an array of a type; its values do not matter, only its shape and dtype are used."""
    if isinstance(value, str):
        value = read_type(value)
    if type(value) is tuple:
        return tuple(map(_array, value))
    if type(value) is list:
        return list(map(_array, value))
    if type(value) is dict:
        return {key: _array(item) for key, item in value.items()}
    if not isinstance(value, TensorType):
        # A record keeps what it is; one with types, such as of a text, gets its arrays.
        is_typed = any(map(is_type, values_in(value)))
        return replaced(value, _array_of_type) if is_typed else value
    import mlx.core as mx

    dtype = getattr(mx, "bool_" if value.dtype is Dtype.BOOL else value.dtype.value)
    with mx.stream(mx.cpu):
        return mx.zeros(value.shape, dtype)
