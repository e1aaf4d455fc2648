"""Rehearsals: what may go wrong in a night goes wrong when a plan says so."""

from kernelwright.campaign.fault.judge import sabotaged
from kernelwright.campaign.fault.plan import Draw, Fault, FaultPlan, drawn, read_plan
from kernelwright.campaign.fault.rehearsal import Rehearsal
from kernelwright.campaign.fault.sabotage import Sabotage
from kernelwright.campaign.fault.wire import SabotagedClient

__all__ = [
    "Draw",
    "Fault",
    "FaultPlan",
    "Rehearsal",
    "Sabotage",
    "SabotagedClient",
    "drawn",
    "read_plan",
    "sabotaged",
]
