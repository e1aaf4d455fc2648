"""Why a function cannot be traced, in one sentence that names the user's line."""

import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from kernelwright.errors import InputError, KernelwrightError, UnsupportedError

_OWN_FOLDER = str(Path(__file__).parents[2])
_LIBRARY = sysconfig.get_paths()["stdlib"]
_ADVICE = {
    "BitwiseInvert": "write x ^ -1 (or 0xFF… for unsigned integers) instead of ~x",
    "Contiguous": "write mx.contiguous in full, so that capture can see past it",
    "CustomTransforms": (
        "it comes from mx.custom_function or mx.checkpoint: search the function inside of it, "
        "without that"
    ),
    "CumLogAddExp": "write mx.logcumsumexp with mx.cumsum over exponentials",
}


def line_of(error: BaseException) -> str:
    """Return where in the user's file an error came up, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    return line_in((f.filename, f.lineno or 0) for f in reversed(frames))


def line_in(frames: Iterable[tuple[str, int]]) -> str:
    """Return the first of the user's lines, the innermost call's first."""
    own = (f" ({file}:{line})" for file, line in frames if not is_library_file(file))
    return next(own, "")


def line_of_definition(function: Callable[..., object]) -> str:
    """Return where a function, or the class of an object that is called, says what a call does."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def check_returns_results(function: Callable[..., object], name: str) -> None:
    """Refuse a function whose call returns before it computes anything.

    Raises:
        UnsupportedError: it is a coroutine or a generator.
    """
    kinds = {
        "a coroutine": inspect.iscoroutinefunction,
        "a generator": inspect.isgeneratorfunction,
        "an asynchronous generator": inspect.isasyncgenfunction,
    }
    called = (function, type(function).__call__)
    for words, is_one in kinds.items():
        if any(map(is_one, called)):
            raise UnsupportedError(
                f"{name} is {words}, which computes nothing when it is called; move what it "
                "computes with arrays into a function that returns them."
            )


def is_library_file(file: str) -> bool:
    """Say whether a file is Python's, a package's or our own, and not the user's."""
    return "site-packages" in file or file.startswith((_OWN_FOLDER, _LIBRARY))


_MOST_SAID = 300
"""Characters of a function's own exception that an error repeats."""


def translated(error: BaseException, function: str, line: str) -> KernelwrightError:
    """Return what MLX or the function itself raised as one sentence about the function."""
    text, name = str(error), f"{function}{line}"
    if text.startswith(("[eval]", "[async_eval]")):
        return InputError(
            f"{name} looks at the values of an array while it is traced (a Python `if`, `float()`, "
            f"`.item()` or NumPy call on it); use mx.where, or pass the value as a Python number."
        )
    if "uncaptured inputs" in text:
        return InputError(
            f"{name} calls a compiled function on arrays that were never evaluated; call mx.eval "
            f"on the arrays that it closes over first."
        )
    if is_unexportable(error):
        primitive = text.rsplit(" ", 1)[-1]
        advice = _ADVICE.get(primitive, "leave that op outside the function")
        return UnsupportedError(
            f"{name} uses MLX's primitive {primitive}, which MLX cannot export; {advice}."
        )
    said = text.partition("\n")[0][:_MOST_SAID]
    return InputError(
        f"{name} raised {type(error).__name__} while it was traced{f': {said}' if said else '.'}"
    )


def is_unexportable(error: BaseException) -> bool:
    """Say whether MLX met a primitive that it cannot export."""
    return "Unable to get state for primitive" in str(error)
