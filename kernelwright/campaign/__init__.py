"""The search loop: what to try next, under which budget, and what it leaves behind."""

from typing import TYPE_CHECKING

from kernelwright.callable_room import make_callable
from kernelwright.lazy_import import offer_lazily

if TYPE_CHECKING:
    from kernelwright.campaign.event import Event
    from kernelwright.campaign.execution.engine import Engine
    from kernelwright.campaign.execution.judge import Judge, MakeJudge, environment_of, judges_on
    from kernelwright.campaign.execution.revalidation import Recheck, recheck
    from kernelwright.campaign.planning.capturing import (
        Captured,
        CapturedFunction,
        capture_subjects,
    )
    from kernelwright.campaign.planning.traffic import Traffic, traffic_of
    from kernelwright.campaign.report.search_report import FunctionReport, SearchReport, TaskReport
    from kernelwright.campaign.spec.search_target import load_each, load_subjects
    from kernelwright.campaign.spec.subject import Subject
    from kernelwright.campaign.team.offline_team import offline_team
    from kernelwright.search.spec import SearchSpec
    from kernelwright.search.strategy import RepairThenWrite, Strategy, Team
else:
    offer_lazily(__name__)


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
    "load_each",
    "load_subjects",
    "offline_team",
    "recheck",
    "traffic_of",
]

# People call `kernelwright.campaign(…)`, whatever was imported before.
make_callable(__name__)
