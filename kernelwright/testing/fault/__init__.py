"""Rehearsals: what may go wrong in a night goes wrong when a plan says so."""

from kernelwright.testing.fault.judge import sabotaged
from kernelwright.testing.fault.plan import Draw, Fault, FaultPlan, drawn, read_plan
from kernelwright.testing.fault.rehearsal import Rehearsal
from kernelwright.testing.fault.sabotage import Sabotage
from kernelwright.testing.fault.wire import SabotagedClient

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
