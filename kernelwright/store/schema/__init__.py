"""The tables, as typed ORM classes; nothing outside the store sees them."""

from kernelwright.store.schema.base import Base, Moment
from kernelwright.store.schema.dialogue import (
    CallRow,
    ConversationRow,
    LessonRow,
    MessageRow,
    RegressionCaseRow,
)
from kernelwright.store.schema.finding import EVERY, ChampionWordRow
from kernelwright.store.schema.search import (
    CampaignRow,
    CandidateRow,
    ChampionRow,
    EnvironmentRow,
    EvaluationRow,
    EventRow,
    ProgramRow,
    SampleSetRow,
    TaskRow,
    TaskWordRow,
    TrialRow,
)
from kernelwright.store.schema.wanted import WantedRow

SCHEMA_VERSION = "0004"
"""The newest migration; a file of a later one belongs to a newer Kernelwright."""

__all__ = [
    "EVERY",
    "SCHEMA_VERSION",
    "Base",
    "CallRow",
    "CampaignRow",
    "CandidateRow",
    "ChampionRow",
    "ChampionWordRow",
    "ConversationRow",
    "EnvironmentRow",
    "EvaluationRow",
    "EventRow",
    "LessonRow",
    "MessageRow",
    "Moment",
    "ProgramRow",
    "RegressionCaseRow",
    "SampleSetRow",
    "TaskRow",
    "TaskWordRow",
    "TrialRow",
    "WantedRow",
]
