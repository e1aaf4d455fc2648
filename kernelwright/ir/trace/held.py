"""Evaluates the arrays that a function's results are made of and that it did not make itself."""

import gc
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import mlx.core as mx

_USE = re.compile(r'^"(\w+)" -> (\d+)$')
_MADE = re.compile(r'^(\d+) -> "(\w+)"$')
_HELD, _INPUT, _RESULT = "held_", "input_", "result_"
_TOGETHER = 500
"""MLX's drawing takes up to 1024 names."""


def evaluate_held(
    results: Sequence[mx.array],
    inputs: Sequence[mx.array],
    is_likely: Callable[[mx.array], bool],
) -> bool:
    """Evaluate arrays that outlive a traced call and that its results are made of.

    Where they are held plays no part: Python's collector lists every array that is alive, and once
    a call has returned, what it made on the way is not.

    Args:
        results: of the call, in a trace of MLX's that is still under way.
        inputs: of the trace.
        is_likely: says by an array's shape and dtype whether it can be one of them.

    Returns:
        Whether there was one without values.
    """
    waiting = list(_without_values(_live_arrays(is_likely, inputs)))
    # A result may be a held array itself, which has one name in a drawing.
    made = [mx.stop_gradient(array) for array in results]
    found = False
    for part in _parts(waiting):
        held = _named(_HELD, part)
        used, depend = set[str](), set[str]()
        for named in (_named(_RESULT, some) for some in _parts(made)):
            used |= _reached(named, _sources({**named, **held}))
        for named in (_named(_INPUT, some) for some in _parts(inputs)):
            depend |= _reached(named, _turned(_sources({**named, **held})))
        taken = [array for name, array in held.items() if name in used - depend]
        mx.eval(taken)
        found = found or bool(taken)
    return found


def is_one_without_values(
    is_likely: Callable[[mx.array], bool], besides: Sequence[mx.array]
) -> bool:
    """Say whether a likely array is alive that is not evaluated, besides some."""
    return next(_without_values(_live_arrays(is_likely, besides)), None) is not None


def _live_arrays(
    is_likely: Callable[[mx.array], bool], besides: Sequence[mx.array]
) -> list[mx.array]:
    known = set(map(id, besides))
    kinds = {mx.array, *mx.array.__subclasses__()}
    # What an object is of, it refers to: half a million objects are asked in half the time that
    # listing them takes. Asked of the class: an object may say that it is of another one.
    alive = [value for value in gc.get_referrers(*kinds) if type(value) in kinds]
    return [array for array in alive if id(array) not in known and is_likely(array)]


def _without_values(arrays: Sequence[mx.array]) -> Iterator[mx.array]:
    for part in _parts(arrays):
        named = _named(_HELD, part)
        sources = _sources(named)
        yield from (array for name, array in named.items() if name in sources)


def _parts(arrays: Sequence[mx.array]) -> list[Sequence[mx.array]]:
    """Cut arrays into as many as a drawing has names for, beside as many others."""
    return [arrays[start : start + _TOGETHER] for start in range(0, len(arrays), _TOGETHER)]


def _named(prefix: str, arrays: Sequence[mx.array]) -> dict[str, mx.array]:
    return {f"{prefix}{i}": array for i, array in enumerate(arrays)}


def _sources(named: Mapping[str, mx.array]) -> dict[str, list[str]]:
    """Return what each array without values is made of, by the names in MLX's drawing."""
    drawing = io.StringIO()
    mx.export_to_dot(drawing, **named)
    operands: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {}
    for line in drawing.getvalue().splitlines():
        if use := _USE.match(line):
            operands.setdefault(use[2], []).append(use[1])
        elif made := _MADE.match(line):
            sources[made[2]] = operands.get(made[1], [])
    return sources


def _turned(sources: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return what is made of each array."""
    found: dict[str, list[str]] = {}
    for name, operands in sources.items():
        for operand in operands:
            found.setdefault(operand, []).append(name)
    return found


def _reached(starts: Iterable[str], steps: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += steps.get(name, ())
    return found
