"""Reads a store page by page, however large it is: what tables and trees on a screen show."""

from kernelwright.store.browsing.record import (
    CandidateNode,
    CandidateOrder,
    FoundTask,
    ListedTask,
    ModelPayment,
    RunTotals,
    StoredEvaluation,
    TrialFilter,
    TrialPage,
)
from kernelwright.store.browsing.store import BrowsingStore

__all__ = [
    "BrowsingStore",
    "CandidateNode",
    "CandidateOrder",
    "FoundTask",
    "ListedTask",
    "ModelPayment",
    "RunTotals",
    "StoredEvaluation",
    "TrialFilter",
    "TrialPage",
]
