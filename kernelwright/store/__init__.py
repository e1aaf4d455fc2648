"""What is remembered: candidates, evaluations, samples, prompts, replies, costs."""

from typing import TYPE_CHECKING

from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.store.commands.trial import Announced, NewTrial
    from kernelwright.store.dialogue_store import DialogueStore
    from kernelwright.store.location import default_url, has_store, label_of, path_of, url_of
    from kernelwright.store.machine import MachineTrial
    from kernelwright.store.merging import Merged, merge_stores
    from kernelwright.store.model_call import (
        Lesson,
        ModelCall,
        ModelOutcome,
        RecordedModelCall,
        Spend,
    )
    from kernelwright.store.pruning import Pruned
    from kernelwright.store.record import (
        Campaign,
        CampaignState,
        Candidate,
        CandidateDetail,
        Champion,
        Environment,
        Freshness,
        HistoryEntry,
        KnownEvaluation,
        LoggedEvent,
        NewEvent,
        Rank,
        StoreStatistics,
        TaskSummary,
        Trial,
        Wanted,
    )
    from kernelwright.store.serving import ServedProgram
    from kernelwright.store.standing import Standing
    from kernelwright.store.store import KernelStore
    from kernelwright.store.sync import Synced
    from kernelwright.store.verdict import Verdict
else:
    offer_lazily(__name__)


__all__ = [
    "Announced",
    "Campaign",
    "CampaignState",
    "Candidate",
    "CandidateDetail",
    "Champion",
    "DialogueStore",
    "Environment",
    "Freshness",
    "HistoryEntry",
    "KernelStore",
    "KnownEvaluation",
    "Lesson",
    "LoggedEvent",
    "MachineTrial",
    "Merged",
    "ModelCall",
    "ModelOutcome",
    "NewEvent",
    "NewTrial",
    "Pruned",
    "Rank",
    "RecordedModelCall",
    "ServedProgram",
    "Spend",
    "Standing",
    "StoreStatistics",
    "Synced",
    "TaskSummary",
    "Trial",
    "Verdict",
    "Wanted",
    "default_url",
    "has_store",
    "label_of",
    "merge_stores",
    "path_of",
    "url_of",
]
