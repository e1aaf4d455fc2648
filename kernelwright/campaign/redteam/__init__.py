"""The red team: programs that try to pass the evaluator although they are wrong."""

from kernelwright.campaign.redteam.record import RedTeamReport, RedTeamSpec, Strike, Target
from kernelwright.campaign.redteam.run import run_red_team
from kernelwright.campaign.redteam.target import targets_from_store, targets_of

__all__ = [
    "RedTeamReport",
    "RedTeamSpec",
    "Strike",
    "Target",
    "run_red_team",
    "targets_from_store",
    "targets_of",
]
