"""What a kernel would cost on a chip: profiles of chips and predictions from counters."""

from kernelwright.metal.perf.prediction import Bound, Prediction, predict
from kernelwright.metal.perf.profile import (
    PROFILES,
    ChipProfile,
    CoreRates,
    InstructionCosts,
    find_profile,
)

__all__ = [
    "PROFILES",
    "Bound",
    "ChipProfile",
    "CoreRates",
    "InstructionCosts",
    "Prediction",
    "find_profile",
    "predict",
]
