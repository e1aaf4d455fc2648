"""What a launch may do: units of work, which are the same on every machine and at every load.

A launch first runs on a loan of processor time, which nearly all end within. One that does not is
counted: its metered build runs on the same arrays, and what counts more units than its budget
holds is refused. Anything else may take as long as it takes, until the clock on the wall says that
the machine gives it too little; then there is no verdict. No machine does more than a budget within
a loan: so whatever is refused anywhere is refused everywhere, and nothing by a clock.
"""

from dataclasses import dataclass

from kernelwright.metal.device.base import RunOptions

_NOMINAL_S = 20.0
"""The limit for which the figures below are meant; they grow with it."""
# One unit is one round of a loop of one thread, or of one vector of threads; see work.h. Two cores
# run 2^36 of them in half a minute, of a threadgroup 2^33 in ten seconds.
_UNITS, _GROUP_UNITS = 1 << 36, 1 << 33
# A sanitizer asks about each access, which costs some 16 times as much.
_INSTRUMENTED_UNITS, _INSTRUMENTED_GROUP_UNITS = 1 << 33, 1 << 31
# A core runs at most one round in a cycle, and an operation of a simdgroup, 16 units for each of
# its lanes, in no less than 16 nanoseconds.
_LOAN_S = 2.0
_PATIENCE = 20
"""So many times its limit a launch may take on the wall."""


@dataclass(frozen=True)
class Budget:
    """The limits of one launch, for `RunOptions.timeout_s`."""

    timeout_s: float
    is_instrumented: bool

    @classmethod
    def of(cls, options: RunOptions) -> "Budget":
        """Return what a launch may do."""
        is_instrumented = options.sanitize or options.count or options.watch
        return cls(options.timeout_s, is_instrumented)

    @property
    def _scale(self) -> float:
        return self.timeout_s / _NOMINAL_S

    @property
    def units(self) -> int:
        """Units of the whole launch."""
        units = _INSTRUMENTED_UNITS if self.is_instrumented else _UNITS
        return max(int(units * self._scale), 1)

    @property
    def group_units(self) -> int:
        """Units of one threadgroup."""
        units = _INSTRUMENTED_GROUP_UNITS if self.is_instrumented else _GROUP_UNITS
        return max(int(units * self._scale), 1)

    @property
    def loan_s(self) -> float:
        """Processor time after which a launch is counted before it goes on."""
        return _LOAN_S * self._scale

    @property
    def patience_s(self) -> float:
        """Time on the wall after which there is no verdict."""
        return _PATIENCE * self.timeout_s
