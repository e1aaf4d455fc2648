"""The red team: programs that try to pass the evaluator although they are wrong."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.campaign.redteam.record import RedTeamReport, Strike, Target
    from kernelwright.campaign.redteam.run import run_red_team
    from kernelwright.campaign.redteam.spec import RedTeamSpec
    from kernelwright.campaign.redteam.target import targets_from_store, targets_of
else:
    offer_lazily(__name__)


__all__ = [
    "RedTeamReport",
    "RedTeamSpec",
    "Strike",
    "Target",
    "run_red_team",
    "targets_from_store",
    "targets_of",
]
