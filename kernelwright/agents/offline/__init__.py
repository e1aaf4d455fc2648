"""Planner, coder and repairer that need no model: the default, and what a model has to beat."""

from kernelwright.agents.offline.coder import OfflineCoder, tuned_before
from kernelwright.agents.offline.planner import OfflinePlanner
from kernelwright.agents.offline.repairer import OfflineRepairer

__all__ = ["OfflineCoder", "OfflinePlanner", "OfflineRepairer", "tuned_before"]
