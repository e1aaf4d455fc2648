"""Numbers computed from data that are always the same: a decision that no case has seen."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.evaluator.coverage.sides import Key, Seen, Tally, forced_values
from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.evaluator.oracle.reference import Reference, judge
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.metal.device.base import Array

_MOST_KINDS = 16
_MOST_VALUES = 8
"""Constant ones that are changed; each takes some runs."""
_CASES = 3
_TIMEOUT_S = 1.0
_LARGEST = 1e3
_FORMATS = {"half": "<e", "float": "<f"}


@dataclass(frozen=True)
class Constant:
    """A number that was the same whenever it was computed."""

    key: Key
    type_: str
    bits: int

    @property
    def number(self) -> float:
        """What it was."""
        return _number(self.type_, self.bits)


@dataclass
class Values:
    """Looks for numbers that data goes into and that never change, though a change would show.

    A condition may hide in arithmetic: in a bump that underflows to zero everywhere but next to
    one sum, in the sign bit of a difference, or in a table of which one entry is never read.
    """

    trial: Trial
    references: Sequence[Reference]
    """Cases of one shape."""
    random: Random

    def unproven(self) -> tuple[Constant, ...]:
        """Return the constants whose change makes outputs wrong."""
        found = self._constants()
        return tuple(c for c in found[:_MOST_VALUES] if self._matters(c))

    def _constants(self) -> list[Constant]:
        tally = Tally()
        for inputs in self._ordinary():
            try:
                result = self.trial.watch(
                    self.references[0].case.graph, inputs, self.trial.config.run_timeout_s
                )
            except Failure:
                continue
            tally.add(result.conditions)
            if not any(map(_is_constant, tally.seen.values())):
                return []
        return [
            Constant(key, seen.value_type, seen.held[0])
            for key, seen in tally.seen.items()
            if _is_constant(seen) and seen.held is not None
        ]

    def _ordinary(self) -> Iterator[tuple[Array, ...]]:
        """Yield the inputs of cases of each kind, with numbers in place of NaN and infinities.

        What comes of those is nobody's number, and would vary where nothing else does.
        """
        kinds = {r.case.distribution: r for r in reversed(self.references)}
        domains = domains_of(self.references[0].case.graph)
        for reference in [*kinds.values()][:_MOST_KINDS]:
            inputs = tuple(self._finite(array) for array in reference.inputs)
            yield inputs
            yield tuple(map(self._from_the_end, inputs, domains))

    def _from_the_end(self, array: Array, domain: Domain) -> Array:
        """Count some indices from the end, as MLX does for negative ones."""
        if domain.index_limit is None or array.dtype.kind != "i":
            return array
        turned = self.random.integers(0, 2, array.shape, dtype=array.dtype)
        return np.asarray(array - turned * array.dtype.type(domain.index_limit))

    def _finite(self, array: Array) -> Array:
        if array.dtype.kind in "buic":
            return array
        wide = array.astype(np.float32)
        drawn = self.random.standard_normal(wide.shape)
        return np.where(np.isfinite(wide), wide, drawn).astype(array.dtype)

    def _matters(self, constant: Constant) -> bool:
        """Say whether outputs are wrong where a constant is changed.

        What strays then, as a changed index does, says nothing.
        """
        chosen = sorted(self.references, key=lambda r: -r.judged_elements)[:_CASES]
        return any(
            self._is_wrong(reference, constant, bits ^ constant.bits)
            for reference in chosen
            for bits in _others(constant)
        )

    def _is_wrong(self, reference: Reference, constant: Constant, changed: int) -> bool:
        try:
            plain = self.trial.run(reference, watch=True)
            forced = forced_values(plain.conditions, constant.key, changed)
            result = self.trial.run(reference, watch=True, forced=forced, timeout_s=_TIMEOUT_S)
        except (Failure, DeviceError):
            return False
        return not all(deviation.is_acceptable for deviation in judge(reference, result.outputs))


def _is_constant(seen: Seen) -> bool:
    return seen.held is not None and seen.held[0] == seen.held[1]


def _others(constant: Constant) -> Iterator[int]:
    """Yield the bits of other numbers."""
    if constant.type_[0] == "i":
        yield constant.bits ^ 1
        return
    yield _bits(constant.type_, 1.0 if constant.number != 1 else 2.0)


def _number(type_: str, bits: int) -> float:
    if type_[0] == "i":
        return bits
    if type_ == "bfloat":
        return _number("float", bits << 16)
    size = struct.calcsize(_FORMATS[type_])
    return float(struct.unpack(_FORMATS[type_], bits.to_bytes(size, "little"))[0])


def _bits(type_: str, number: float) -> int:
    if type_ == "bfloat":
        return _bits("float", number) >> 16
    return int.from_bytes(struct.pack(_FORMATS[type_], number), "little")
