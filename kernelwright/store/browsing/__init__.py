"""Reads a store page by page, however large it is: what tables and trees on a screen show."""

from kernelwright.store.browsing.record import (
    CandidateNode,
    CandidateOrder,
    FailedVerdicts,
    FoundTask,
    Improvement,
    ListedTask,
    ModelPayment,
    ModelSpend,
    RunTotals,
    StoredEvaluation,
    TaskVerdicts,
    TrialFilter,
    TrialPage,
    UnusableReplies,
)
from kernelwright.store.browsing.store import BrowsingStore

__all__ = [
    "BrowsingStore",
    "CandidateNode",
    "CandidateOrder",
    "FailedVerdicts",
    "FoundTask",
    "Improvement",
    "ListedTask",
    "ModelPayment",
    "ModelSpend",
    "RunTotals",
    "StoredEvaluation",
    "TaskVerdicts",
    "TrialFilter",
    "TrialPage",
    "UnusableReplies",
]
