"""Calls of the Python API: a wrong argument is one sentence, wherever it is first noticed."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, get_args, get_origin

from kernelwright.errors import InputError, KernelwrightError
from kernelwright.validation import sentence_of

P = ParamSpec("P")
R = TypeVar("R")
_MOST = 100
_COMMAND = re.compile(r"(`[^`]*`|kernelwright [a-z-]+ .*|pip install .*)")
_FLAG = re.compile(
    r"(?<![\w-])(?:--(?P<name>[a-z][a-z-]*)|-(?P<short>[io])\b)(?: (?P<value>\w+|'[^']*'))?"
)
_ARGUMENTS = {"format": "format_name", "i": "inputs", "o": "directory"}
_SWITCHES = frozenset({"force", "slower"})
_VALUES = frozenset({"module", "package", "huggingface", "patch", "metal", "mlxfn", "swift", "cpp"})
"""What stands behind `--format`; any other word behind a flag is the sentence's next."""
_WORDS: dict[object, str] = {
    str: "a text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}


def one_sentence(function: Callable[P, R]) -> Callable[P, R]:
    """Let a public function name the argument that made it fail.

    Flags of the command line in Kernelwright's own errors become arguments. An exception that it
    did not raise becomes an `InputError` where an argument is not
    of the type that its annotation names; others, a user's own function's among them, pass.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except KernelwrightError as e:
            e.args = tuple(in_python(a) if isinstance(a, str) else a for a in e.args)
            raise
        except Exception as e:
            if (wrong := _wrong_argument(function, args, kwargs) or _invalid(e)) is not None:
                raise InputError(wrong) from e
            raise

    return called


def in_python(sentence: str) -> str:
    """Write the flags of the command line as Python's arguments, but for those of commands.

    `add --force` becomes `add force=True`, and `use --format cpp` becomes `use format_name='cpp'`.
    """
    # A command in backticks, or after a colon, is there to be typed as it stands.
    parts = _COMMAND.split(sentence)
    return "".join(part if i % 2 else _FLAG.sub(_argument, part) for i, part in enumerate(parts))


def _argument(flag: re.Match[str]) -> str:
    spelled, value = flag["name"] or flag["short"], flag["value"]
    name = _ARGUMENTS.get(spelled, spelled.replace("-", "_"))
    rest = f" {value}" if value else ""
    if name in _SWITCHES:
        return f"{name}=True{rest}"
    if value and value[0] == "'":
        return f"{name}={value}"
    return f"{name}={value!r}" if value in _VALUES else f"`{name}`{rest}"


def check_types(function: Callable[..., object], given: Mapping[str, object]) -> None:
    """Check arguments against the annotations of a public function.

    Raises:
        InputError: one is of another type.
    """
    if (wrong := _misfit(function, given)) is not None:
        raise InputError(wrong)


def _wrong_argument(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return None
    return _misfit(function, given)


def _misfit(function: Callable[..., object], given: Mapping[str, object]) -> str | None:
    """Say which argument does not fit its annotation, and what would."""
    try:
        annotations = typing.get_type_hints(function)
    except NameError:
        return None
    for name, value in given.items():
        annotation = annotations.get(name, object)
        if not _fits(value, annotation):
            shown = repr(value)
            shown = shown if len(shown) <= _MOST else f"{shown[:_MOST]}…"
            called = getattr(function, "__name__", "the function")
            return f"expected {name} of {called} to be {_words(annotation)}, found {shown}."
    return None


def _invalid(error: Exception) -> str | None:
    """Say what a record of pydantic's refused."""
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return None
    return sentence_of(error)  # type: ignore[arg-type]


def _fits(value: object, annotation: object) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or (type(value) is type(each) and value == each) for each in inner)
    if annotation is float:
        return isinstance(value, int | float)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        of = inner[0] if inner else object
        return isinstance(value, list | tuple) and all(_fits(each, of) for each in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if origin is Callable or annotation is Callable:
        return callable(value)
    if isinstance(annotation, type) and annotation is not object:
        return isinstance(value, annotation)
    return True


def _words(annotation: object) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each {_words(inner[0])}" if inner else "a list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dict"
    if origin is Callable or annotation is Callable:
        return "a function"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))
