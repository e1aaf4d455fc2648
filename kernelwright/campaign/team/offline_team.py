"""The team that needs no model and no key."""

from kernelwright.agents.offline import OfflineCoder, OfflinePlanner, OfflineRepairer
from kernelwright.search.strategy import Team


def offline_team() -> Team:
    """Return the planner, coder and repairer that are plain programs."""
    return Team(planner=OfflinePlanner(), coder=OfflineCoder(), repairer=OfflineRepairer())
