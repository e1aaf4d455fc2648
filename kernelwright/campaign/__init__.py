"""The search loop: what to try next, under which budget, and what it leaves behind."""

from kernelwright.campaign.engine import Engine
from kernelwright.campaign.event import Event
from kernelwright.campaign.judge import Judge, MakeJudge, environment_of, judges_on
from kernelwright.campaign.planning import Captured, CapturedFunction, capture_subjects
from kernelwright.campaign.recheck import Recheck, recheck
from kernelwright.campaign.report import FunctionReport, SearchReport, TaskReport
from kernelwright.campaign.savings import Traffic, traffic_of
from kernelwright.campaign.subject import Subject, load_subjects, parse_input
from kernelwright.campaign.team import offline_team
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import RepairThenWrite, Strategy, Team

__all__ = [
    "Captured",
    "CapturedFunction",
    "Engine",
    "Event",
    "FunctionReport",
    "Judge",
    "MakeJudge",
    "Recheck",
    "RepairThenWrite",
    "SearchReport",
    "SearchSpec",
    "Strategy",
    "Subject",
    "TaskReport",
    "Team",
    "Traffic",
    "capture_subjects",
    "environment_of",
    "judges_on",
    "load_subjects",
    "offline_team",
    "parse_input",
    "recheck",
    "traffic_of",
]
