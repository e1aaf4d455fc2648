"""Calls the user's function twice, to find out whether it computes from its arguments alone."""

import io
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress

from kernelwright.runtime.effect import ImpureError, plain_results, refusing_effects, same_plain
from kernelwright.runtime.export.function.arguments_code import arguments_with
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.replica import replica_of
from kernelwright.runtime.state import holding, state_of

Function = Callable[..., object]


def check_pure(function: Function, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Refuse a function that reads or does what a kernel does not; nothing of it stays changed.

    What it prints does not show. What fails here fails again where it is traced, with a reason.

    Raises:
        ImpureError: its line of the user's file, and what it does; or what differs in two calls.
    """
    found: list[list[str]] = []
    for _ in range(2):
        with suppress(Exception), ExitStack() as stack:
            tried = _on_copies(function, args, kwargs, stack)
            if isinstance(tried, ImpureError):
                break
            found.append(plain_results(tried))
    else:
        if len(found) == 2:
            same_plain(found[0], found[1])
        return
    raise tried


def _on_copies(
    function: Function, args: tuple[object, ...], kwargs: Mapping[str, object], stack: ExitStack
) -> object:
    """Call a function's replica; return its result, or why no kernel may take its place."""
    call = _Call((args, dict(kwargs)))
    given, named = arguments_with(call, [a.astype(a.dtype) for a in call.arrays])
    traced = replica_of(function)
    arrays = [a.astype(a.dtype) for a in state_of(function).arrays]
    stack.enter_context(holding(state_of(traced).slots, arrays))
    # A file and not a text in memory: what is written to the screen is an effect, print or not.
    stack.enter_context(redirect_stdout(io.TextIOWrapper(io.BytesIO())))
    stack.enter_context(redirect_stderr(io.TextIOWrapper(io.BytesIO())))
    try:
        with refusing_effects():
            return traced(*given, **named)
    except ImpureError as e:
        return e
