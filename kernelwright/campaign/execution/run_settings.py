"""How a run of a search goes about it, and who proposes in it."""

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.campaign.execution.executor import Executor
from kernelwright.campaign.execution.retry_policy import USUAL_CARE, DeviceCare
from kernelwright.campaign.execution.trial_log import Listener
from kernelwright.campaign.history.pausing import Pause
from kernelwright.search.priority import Order
from kernelwright.search.strategy import Strategy, Team


@dataclass(frozen=True)
class CampaignTeam:
    """Who proposes in a campaign that has begun, and what is tried in which order."""

    team: Team
    strategy: Strategy


TeamFactory = Callable[[str, Executor], CampaignTeam]
"""Makes a team once the campaign's id is known and its device open: models write into its records
and have their programs tried by its executor."""


@dataclass(frozen=True)
class RunSettings:
    """How a run of a search goes about it, apart from what is searched."""

    listen: Listener = lambda event: None
    team_factory: TeamFactory | None = None
    """Makes the team once the campaign's id is known; None keeps the engine's."""
    order: Order | None = None
    """Which task is served first; None means where most seconds can be saved."""
    resumes: bool = False
    """True where what earlier runs took counts towards the caps."""
    pause: Pause | None = None
    care: DeviceCare = USUAL_CARE
    root_id: str | None = None
    """The campaign that goes on; else it is that of a run of the same search that did not finish,
    whatever its caps were."""
    chip: str | None = None
    """Whose times the report predicts."""
