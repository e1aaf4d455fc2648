"""What a person wants faster, as Python holds it: functions, files, and their example inputs."""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import mlx.core as mx
import numpy as np

from kernelwright.annotation import Example, examples_of, original_of
from kernelwright.campaign import Captured, Subject, capture_subjects, load_subjects
from kernelwright.campaign.spec.input_nest import INNER_RECORD, INNER_TYPE
from kernelwright.campaign.spec.input_text import read_inputs
from kernelwright.campaign.spec.search_target import Recall, subject_of
from kernelwright.errors import InputError
from kernelwright.service.python.origin import name_to_show, parameters_of, place_of
from kernelwright.service.searched_input import recall_from

Function = Callable[..., object]
Target = Function | str | Path
"""A function, a method, an object that is called, or `FILE.py:function` as on the command line."""
Inputs = object
"""Arrays, types such as `f16[8,512]` and plain values: one, a sequence, or a mapping by name."""
_WRITTEN = re.compile(r"\s*\w+\s*\[[^\]]*\]\s*")
_NEST = re.compile(rf"\s*(?:[{{\[(]|{INNER_RECORD.pattern}).*[}}\])]\s*", flags=re.DOTALL)
_NAMED = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=(?P<value>[^=].*)", flags=re.DOTALL)

_NOTHING = Example(())


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
    return capture_subjects(s for each in targets for s in subjects(each, inputs, store))


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
    examples: Sequence[Example] = examples_of(function) or examples_of(type(function).__call__)
    if inputs is not None:
        examples = calls(inputs, parameters_of(function), _module_of(function))
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


def calls(inputs: Inputs, parameters: Sequence[str] = (), home: str = "") -> list[Example]:
    """Read the inputs of a call; a range of sizes in a type stands for its two ends.

    The classes of records are those of the module `home` before all others.

    Raises:
        InputError: a type is none.
    """
    if isinstance(inputs, Example):
        return [inputs]
    if isinstance(inputs, Mapping):
        items = [_Item(_parameter(name), value) for name, value in inputs.items()]
    else:
        values = inputs if isinstance(inputs, tuple | list) else [inputs]
        items = [_Item.of(value) for value in values]
    texts = [item.text for item in items if item.is_text]
    read = read_inputs(texts, parameters, home) if texts else [_NOTHING]
    return [_call(items, end) for end in read]


@dataclass(frozen=True)
class _Item:
    """One input and, where it goes by name, its parameter."""

    name: str | None
    value: object

    @classmethod
    def of(cls, value: object) -> "_Item":
        named = _NAMED.fullmatch(value) if isinstance(value, str) else None
        if named is None:
            return cls(None, value)
        if _is_written(named["value"]):
            return cls(named["name"], named["value"])
        try:
            return cls(named["name"], ast.literal_eval(named["value"].strip()))
        except (ValueError, SyntaxError):
            # A text that is no input of the command line, such as the name of a mode.
            return cls(None, value)

    @property
    def is_text(self) -> bool:
        """True for a type, a nest of them, and a number that may be a size in one."""
        if self.name is not None and type(self.value) is int:
            return True
        return isinstance(self.value, str) and _is_written(self.value)

    @property
    def text(self) -> str:
        """As the command line takes it."""
        return str(self.value) if self.name is None else f"{self.name}={self.value}"


def _is_written(text: str) -> bool:
    """Say whether a text is a type, or a nest or record that holds one."""
    is_nest = _NEST.fullmatch(text) and (INNER_TYPE.search(text) or INNER_RECORD.match(text))
    return bool(_WRITTEN.fullmatch(text) or is_nest)


def _call(items: Sequence[_Item], read: Example) -> Example:
    """Put what was read in the place of its texts; a size that is no parameter is left out."""
    types, named = iter(read.inputs), dict(read.keywords)
    return Example(
        tuple(next(types) if i.is_text else _array(i.value) for i in items if i.name is None),
        tuple(
            (i.name, named[i.name] if i.is_text else _array(i.value))
            for i in items
            if i.name is not None and (i.name in named or not i.is_text)
        ),
    )


def _parameter(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"expected the inputs by their parameters' names, found {name!r}.")
    return name


def _array(value: object) -> object:
    """Take NumPy's arrays and numbers as MLX does; anything else as it is."""
    if isinstance(value, np.ndarray | np.generic):
        try:
            return mx.array(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError) as e:
            raise InputError(
                f"expected an array that MLX can hold, found {value.dtype} of {value.shape}: {e}."
            ) from e
    return value


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
