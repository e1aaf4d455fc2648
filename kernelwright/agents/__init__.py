"""Who proposes: planners, coders and repairers, offline and model-driven."""

from kernelwright.agents.protocols import (
    Attempt,
    Coder,
    Plan,
    PlannedRegion,
    Planner,
    Proposal,
    Repairer,
)

__all__ = ["Attempt", "Coder", "Plan", "PlannedRegion", "Planner", "Proposal", "Repairer"]
