"""Planner, coder and repairer that need no model: the default, and what a model has to beat."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.agents.offline.coder import OfflineCoder, tuned_before
    from kernelwright.agents.offline.planner import OfflinePlanner
    from kernelwright.agents.offline.repairer import OfflineRepairer
else:
    offer_lazily(__name__)


__all__ = ["OfflineCoder", "OfflinePlanner", "OfflineRepairer", "tuned_before"]
