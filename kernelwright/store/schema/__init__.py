"""The tables, as typed ORM classes; nothing outside the store sees them."""

from kernelwright.store.schema.base import Base, Moment
from kernelwright.store.schema.dialogue import (
    CallRow,
    LessonRow,
    RegressionCaseRow,
)
from kernelwright.store.schema.finding import EVERY, LONGEST_INDEXED_SHAPES, ChampionWordRow
from kernelwright.store.schema.fleet import FleetJobRow, FleetWorkerRow
from kernelwright.store.schema.machine import MachineTrialRow
from kernelwright.store.schema.search import (
    CampaignRow,
    CampaignTaskRow,
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

SCHEMA_VERSION = "0008"
"""The newest migration; a file of a later one belongs to a newer Kernelwright."""

__all__ = [
    "EVERY",
    "LONGEST_INDEXED_SHAPES",
    "SCHEMA_VERSION",
    "Base",
    "CallRow",
    "CampaignRow",
    "CampaignTaskRow",
    "CandidateRow",
    "ChampionRow",
    "ChampionWordRow",
    "EnvironmentRow",
    "EvaluationRow",
    "EventRow",
    "FleetJobRow",
    "FleetWorkerRow",
    "LessonRow",
    "MachineTrialRow",
    "Moment",
    "ProgramRow",
    "RegressionCaseRow",
    "SampleSetRow",
    "TaskRow",
    "TaskWordRow",
    "TrialRow",
    "WantedRow",
]
