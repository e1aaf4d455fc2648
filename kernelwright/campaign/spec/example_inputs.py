"""The inputs that a file names in its own `example_inputs()`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from kernelwright.annotation import Example
from kernelwright.campaign.spec.subject import Function, NamedFunction, Subject, subject_at
from kernelwright.errors import InputError

EXAMPLE_INPUTS = "example_inputs"
_HOW = (
    f"write one as -i 'bf16[2048,4096]', define {EXAMPLE_INPUTS}() in the file, "
    "or decorate the function with @kernelwright.example"
)


def from_example_inputs(
    module: ModuleType, functions: Sequence[NamedFunction], path: Path, *, is_needed: bool
) -> list[Subject]:
    """Return those functions of a module at the inputs that it gives.

    Raises:
        InputError: it gives none where they are needed, or they fit no function.
    """
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
    return [subject_at(functions[0], path, call)]


def _by_name(
    made: Mapping[str, object], functions: Sequence[NamedFunction], path: Path, *, is_needed: bool
) -> list[Subject]:
    named = [f for f in functions if f.name in made]
    if is_needed and not named:
        wanted, found = ", ".join(f.name for f in functions), ", ".join(map(str, made)) or "nothing"
        raise InputError(
            f"expected {EXAMPLE_INPUTS}() of {path} to hold inputs for {wanted}, found {found}; "
            f"{_HOW}."
        )
    return [subject_at(f, path, _as_example(made[f.name])) for f in named]


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
