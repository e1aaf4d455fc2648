"""What a kernel would cost on a chip: profiles of chips and predictions from counters."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.metal.perf.prediction import Bound, Prediction, predict
    from kernelwright.metal.perf.profile import (
        CAVEAT,
        PROFILES,
        ChipProfile,
        CoreRates,
        InstructionCosts,
        caveat_of,
        find_profile,
    )
else:
    offer_lazily(__name__)


__all__ = [
    "CAVEAT",
    "PROFILES",
    "Bound",
    "ChipProfile",
    "CoreRates",
    "InstructionCosts",
    "Prediction",
    "caveat_of",
    "find_profile",
    "predict",
]
