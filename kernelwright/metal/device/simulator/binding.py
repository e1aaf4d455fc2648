"""What a caller passes to a kernel, matched to its parameters."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.metal.device.simulator.element import (
    Argument,
    in_memory,
    refuse_other_elements,
)
from kernelwright.metal.device.simulator.record import Buffer
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.msl.signature import Entry, Parameter

Key = int | str
"""A buffer's index, or the parameter's name."""


@dataclass(frozen=True)
class Binding:
    """Matches what a caller passes to a kernel's parameters."""

    entry: Entry
    disabled: frozenset[str]
    fresh: Collection[Key]

    def bind(self, buffers: Mapping[Key, Argument] | Sequence[Argument]) -> list[Buffer]:
        """Return the runtime's buffers, by slot."""
        parameters = [p for p in self.entry.buffers if p.name not in self.disabled]
        given = self._by_name(buffers, parameters)
        return [
            self._buffer(p, given[p.name])
            if p.name not in self.disabled
            else Buffer(p.name, np.zeros(16, np.uint8))
            for p in self.entry.buffers
        ]

    def _by_name(
        self, buffers: Mapping[Key, Argument] | Sequence[Argument], parameters: list[Parameter]
    ) -> dict[str, Argument]:
        if not isinstance(buffers, Mapping):
            if len(buffers) != len(parameters):
                raise LaunchError(
                    f"{self.entry.name} takes {len(parameters)} buffers ({_listed(parameters)}), "
                    f"found {len(buffers)}."
                )
            return {p.name: b for p, b in zip(parameters, buffers, strict=True)}
        names = {p.index: p.name for p in self.entry.buffers}
        known = {p.name for p in self.entry.buffers}
        given: dict[str, Argument] = {}
        for key, value in buffers.items():
            name = names.get(key, "") if isinstance(key, int) else key
            if name not in known:
                raise LaunchError(
                    f"{self.entry.name} has no buffer {key!r}; its buffers are: "
                    f"{_listed(parameters)}."
                )
            given[name] = value
        if missing := [p.name for p in parameters if p.name not in given]:
            raise LaunchError(f"{self.entry.name} also needs the buffers {', '.join(missing)}.")
        return given

    def _buffer(self, parameter: Parameter, value: Argument) -> Buffer:
        is_fresh = parameter.name in self.fresh or parameter.index in self.fresh
        if isinstance(value, np.ndarray):
            refuse_other_elements(parameter, value)
        array = value if isinstance(value, np.ndarray) else in_memory(parameter, value)
        if not array.flags.c_contiguous:
            raise LaunchError(
                f"the array of {parameter.name} is not contiguous; pass np.ascontiguousarray(…)."
            )
        writable = not parameter.is_const
        if writable and isinstance(value, np.ndarray) and not value.flags.writeable:
            raise LaunchError(f"the kernel writes {parameter.name}, whose array is read-only.")
        return Buffer(parameter.name, array, writable=writable, initialised=not is_fresh)


def _listed(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{p.name} ({p.index})" for p in parameters)
