"""What a caller passes to a kernel, matched to its parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.argument import by_name, listed, shown
from kernelwright.metal.device.simulator.element import (
    SINGLE,
    in_memory,
    refuse_other_elements,
)
from kernelwright.metal.device.simulator.record import Buffer
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.msl.signature import Entry, Parameter
from kernelwright.plural import counted


@dataclass(frozen=True)
class Binding:
    """Matches what a caller passes to a kernel's parameters."""

    entry: Entry
    disabled: frozenset[str]
    fresh: frozenset[str]
    """Names of outputs that hold nothing yet."""

    def bind(self, buffers: object) -> list[Buffer]:
        """Return the runtime's buffers, by slot.

        Args:
            buffers: A list in the order of the parameters, or a dict by name or index.

        Raises:
            LaunchError: they do not fit the kernel, or two share memory that it writes.
        """
        given = self._by_name(buffers)
        bound = [
            self._buffer(p, given[p.name])
            if p.name not in self.disabled
            else Buffer(p.name, np.zeros(16, np.uint8))
            for p in self.entry.buffers
        ]
        refuse_shared_outputs(self.entry.name, bound)
        return bound

    def _by_name(self, buffers: object) -> dict[str, object]:
        parameters = [p for p in self.entry.buffers if p.name not in self.disabled]
        if isinstance(buffers, dict | Mapping):
            given = by_name(self.entry, "buffers", buffers, self.entry.buffers)
            if missing := [p.name for p in parameters if p.name not in given]:
                raise LaunchError(
                    f"{self.entry.name} also needs the buffer{'s' if len(missing) > 1 else ''} "
                    f"{', '.join(missing)}."
                )
            return given
        if isinstance(buffers, str | bytes) or not isinstance(buffers, Sequence):
            raise LaunchError(
                f"{self.entry.name}: buffers is expected to be a list of arrays, or a dict of them "
                f"by name or index, found {shown(buffers)}."
            )
        if len(buffers) != len(parameters):
            raise LaunchError(
                f"{self.entry.name} takes {counted(len(parameters), 'buffer')} "
                f"({listed(parameters)}), "
                f"found {len(buffers)}."
            )
        return {p.name: b for p, b in zip(parameters, buffers, strict=True)}

    def _buffer(self, parameter: Parameter, value: object) -> Buffer:
        writable = not parameter.is_const
        array = _array_of(parameter, value)
        if not array.flags.c_contiguous:
            raise LaunchError(
                f"the array of {parameter.name} is not contiguous; pass np.ascontiguousarray(…)."
            )
        if writable and not array.flags.writeable:
            raise LaunchError(f"the kernel writes {parameter.name}, whose array is read-only.")
        is_fresh = parameter.name in self.fresh
        return Buffer(parameter.name, array, writable=writable, initialised=not is_fresh)


def _array_of(parameter: Parameter, value: object) -> Array:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise LaunchError(
                f"the array of {parameter.name} holds Python objects; pass an array of numbers."
            )
        refuse_other_elements(parameter, value)
        return value
    if not isinstance(value, SINGLE):
        raise LaunchError(
            f"{parameter.name} is expected to be an array, a number or bytes, found "
            f"{shown(value)}; pass np.asarray(…) of what holds numbers."
        )
    if not parameter.is_const:
        raise LaunchError(
            f"the kernel writes {parameter.name}, so it is expected to be an array, found "
            f"{shown(value)}."
        )
    return in_memory(parameter, value)


def refuse_shared_outputs(kernel: str, buffers: Sequence[Buffer]) -> None:
    """Refuse an output that shares memory with another buffer, as MLX gives each its own.

    Raises:
        LaunchError: one does; the same array may be several inputs.
    """
    for i, one in enumerate(buffers):
        for other in buffers[:i]:
            is_written = one.writable or other.writable
            # Of contiguous arrays their bounds tell.
            if is_written and np.may_share_memory(one.data, other.data):
                first, second = (one, other) if one.writable else (other, one)
                raise LaunchError(
                    f"{kernel} writes {first.name}, whose array shares memory with that of "
                    f"{second.name}; pass a copy, for MLX gives each output memory of its own."
                )
