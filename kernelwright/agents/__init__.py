"""Who proposes: planners, coders and repairers, offline and model-driven."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.agents.protocols import (
        Attempt,
        Coder,
        Plan,
        PlannedRegion,
        Planner,
        Proposal,
        Repairer,
    )
else:
    offer_lazily(__name__)


__all__ = ["Attempt", "Coder", "Plan", "PlannedRegion", "Planner", "Proposal", "Repairer"]
