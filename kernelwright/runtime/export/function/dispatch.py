"""Runs kernels in the place of a function.

The text of this file is part of every export, and so are those that it imports; besides them it
imports MLX alone. The exporter uses the same code, so it sees a call as the export will.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx

from kernelwright.runtime.enumeration import _member_exchange, _of_own_members
from kernelwright.runtime.export.function.differentiable import _differentiable, _listed, _original
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.unchanged import _Unchanged
from kernelwright.runtime.value import _Value


def _runs_metal() -> bool:
    return mx.metal.is_available() and mx.default_device() == mx.gpu


@functools.cache
def _chip() -> str:
    return mx.device_info(mx.gpu).get("device_name", "")


class _Variant:
    """Kernels that serve the calls of one key: these shapes, dtypes and other values."""

    def __init__(
        self,
        run: Callable,
        nest: Callable,
        *,
        chip: str,
        slots: Sequence[int] = (),
        fixed: Sequence[tuple[int, mx.array]] = (),
        changed: Sequence[tuple[int, int, bool]] = (),
        shown: Sequence[int] = (),
    ) -> None:
        self.run, self.nest, self.chip, self.slots = run, nest, chip, slots
        self.fixed = [(place, _Value(array)) for place, array in fixed]
        # Arrays that the function changes in place: their place, the result that they become,
        # and whether that result is the array itself. Some are results for this alone.
        self.changed, self.shown = changed, shown

    def suits(self, call: _Call) -> bool:
        """Say whether the arrays whose values the kernels hold are still those of the export."""
        return all(value.is_that_of(call.array_at(place)) for place, value in self.fixed) and not (
            self.changed and self._is_shared(call)
        )

    def arrays(self, call: _Call) -> list[mx.array]:
        """Return what the kernels read: the arrays of the arguments, then of the slots."""
        return [*call.arrays, *map(call.array_at, self.slots)]

    def _is_shared(self, call: _Call) -> bool:
        """Say whether an array that is changed was passed, or is held, twice."""
        every = [*call.arrays, *map(call.array_at, range(len(call.slots)))]
        given = self.arrays(call)
        return any(sum(a is given[place] for a in every) > 1 for place, _, _ in self.changed)

    def result(self, arrays: Sequence[mx.array], made: Sequence[mx.array]) -> object:
        """Write back what is changed in place, and return what the function returns."""
        made = list(made)
        for place, output, is_returned in self.changed:
            arrays[place][...] = made[output]
            if is_returned:
                made[output] = arrays[place]
        return self.nest(*made)


def _binding(function: Callable) -> Callable[[tuple, dict], tuple[tuple, dict]]:
    """Return what puts arguments in the order of the parameters, and adds the defaults."""
    if type(function).__module__ == "mlx.core":
        # What mx.grad, mx.vmap and their like return tells arguments by how they are passed.
        return lambda args, kwargs: (args, kwargs)
    signature = inspect.signature(function)

    def bound(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return given.args, given.kwargs

    return bound


def _with_kernels(
    function: Callable,
    variants: Mapping[str, Sequence[_Variant]],
    captured: Sequence[tuple[dict, str]] = (),
    names: frozenset[str] | None = None,
    passed: Sequence[object] = (),
) -> Callable:
    """Return `function` with kernels where they serve a call; it runs itself everywhere else.

    Args:
        function: also gives the derivatives.
        variants: what serves the calls of a key.
        captured: (namespace, name) of what the function reads besides its arguments.
        names: attributes and variables that its lines read; what others hold plays no part.
        passed: the object whose method it is, and classes of arguments.
    """
    is_unchanged = _Unchanged(function, names, passed)
    with_own_members, bound = _member_exchange(function), _binding(function)
    as_written = _of_own_members(function)

    def serving(call: _Call) -> _Variant | None:
        found = [v for v in variants.get(call.key, ()) if v.suits(call)]
        if not found or not is_unchanged() or not is_unchanged.knows(call.definitions):
            return None
        if len(found) > 1:
            # Kernels that were judged on this chip come before all others.
            found.sort(key=lambda v: v.chip != _chip())
        return found[0] if found else None

    @functools.wraps(function)
    def dispatching(*args: object, **kwargs: object) -> object:
        args, kwargs = with_own_members(args, kwargs)
        if not _runs_metal():
            return as_written(*args, **kwargs)
        try:
            given = bound(args, kwargs)
        except TypeError:
            # Python's own message names the function.
            return function(*args, **kwargs)
        call = _Call(given, captured, names)
        variant = serving(call)
        if variant is None:
            return as_written(*args, **kwargs)
        slots = [call.slots[place] for place in variant.slots]
        arrays = variant.arrays(call)
        original = _original(as_written, call, slots, variant.shown)
        return variant.result(arrays, _listed(_differentiable(variant.run, original)(*arrays)))

    def serves(*args: object, **kwargs: object) -> bool:
        """Say whether kernels serve such a call where there is a GPU that runs Metal."""
        given = bound(*with_own_members(args, kwargs))
        return serving(_Call(given, captured, names)) is not None

    dispatching.reference, dispatching.serves = function, serves
    return dispatching


def _restore(call: _Call, data: Mapping[str, mx.array]) -> None:
    """Put the arrays of an export where they stood."""
    for (holder, key), path in zip(call.slots, call.paths, strict=True):
        holder[key] = data[path]
