"""Candidates and searches as the tools return them; nothing of a closed gate is told."""

from kernelwright.agents.roles.text.feedback import diagnosis, outcome, profile, speed_of
from kernelwright.campaign import SearchReport
from kernelwright.campaign.planning.plan_summary import PlanOutline
from kernelwright.campaign.report.champion_list import RankedChampion
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.kernel import Kernel
from kernelwright.service.mcp.records import (
    Explanation,
    FoundKernel,
    KernelPage,
    KernelText,
    KernelVerdict,
    ListedChampion,
    PlannedFunction,
    PlannedKernel,
    SearchOutcome,
)
from kernelwright.store import CandidateDetail

_UNJUDGED = "It was not judged yet."


def verdict_of(detail: CandidateDetail) -> Evaluation | None:
    """Return the verdict that stands; None while the candidate was not judged."""
    known = detail.standing
    return known.evaluation if known is not None else None


def explain(evaluation: Evaluation, detail: CandidateDetail) -> str:
    """Say what is wrong, where and how; or what bounds a correct kernel."""
    return profile(evaluation) if evaluation.is_correct else diagnosis(evaluation, detail.program)


def planned_function(planned: PlanOutline, brief: str) -> PlannedFunction:
    """Return a function's plan with what a kernel of the whole function must compute."""
    return PlannedFunction(
        function=planned.function,
        inputs=planned.inputs,
        kernels=tuple(
            PlannedKernel(
                label=region.label,
                name=region.name,
                operation=region.operation,
                inputs=region.inputs,
                outputs=region.outputs,
                limit=region.limit.words,
                champion=region.gain.words if region.gain else "",
            )
            for region in planned.regions
        ),
        left_to_mlx=tuple(f"{left.op}: {left.reason}" for left in planned.left),
        limit=planned.limit.words if planned.limit else "",
        brief=brief,
    )


def listed_champion(champion: RankedChampion) -> ListedChampion:
    """Return a row of `best`."""
    return ListedChampion(
        candidate_id=champion.candidate_id,
        task=champion.task.name,
        inputs=champion.task.shapes,
        device=champion.device,
        chip=champion.chip,
        speed=champion.gain.words,
        beats_mlx=champion.beats_mlx,
        freshness=str(champion.freshness),
        author=champion.author,
    )


def kernel_verdict(detail: CandidateDetail, evaluation: Evaluation) -> KernelVerdict:
    """Return the verdict on a submitted kernel."""
    return KernelVerdict(
        candidate_id=detail.candidate.id,
        is_correct=evaluation.is_correct,
        is_champion=bool(detail.champion_on),
        status=evaluation.status,
        summary=outcome(evaluation),
        diagnosis=explain(evaluation, detail),
        speed=speed_of(evaluation, only_strongest=True) if evaluation.is_correct else "",
        stages=tuple(f"{s.stage.value}: {_word(s.passed)}" for s in evaluation.stages),
        device=evaluation.device.name,
    )


def explanation(detail: CandidateDetail) -> Explanation:
    """Say why a candidate is what it is."""
    evaluation = verdict_of(detail)
    return Explanation(
        candidate_id=detail.candidate.id,
        task=detail.candidate.task.name,
        author=detail.candidate.author,
        status=evaluation.status if evaluation else None,
        explanation=explain(evaluation, detail) if evaluation else _UNJUDGED,
        case=evaluation.case if evaluation else "",
    )


def kernel_page(detail: CandidateDetail) -> KernelPage:
    """Return everything about a candidate that a model may know."""
    evaluation = verdict_of(detail)
    return KernelPage(
        candidate_id=detail.candidate.id,
        task=detail.candidate.task.name,
        signature=detail.candidate.task.signature,
        author=detail.candidate.author,
        idea=detail.candidate.idea,
        kernels=tuple(map(_kernel_text, detail.program.kernels)),
        ancestors=tuple(candidate.id for candidate in detail.lineage),
        champion_on=tuple(champion.device for champion in detail.champion_on),
        status=evaluation.status if evaluation else None,
        explanation=explain(evaluation, detail) if evaluation else _UNJUDGED,
    )


def search_outcome(report: SearchReport) -> SearchOutcome:
    """Return what a search left."""
    return SearchOutcome(
        campaign_id=report.campaign_id,
        device=report.device.name,
        tasks=tuple(
            FoundKernel(
                task=task.name,
                tried=task.tried,
                champion_id=task.champion_id,
                speed=task.gain.words if task.gain else "",
                reason=task.reason,
            )
            for task in report.tasks
        ),
        refused=tuple(f"{refused.function}: {refused.reason}" for refused in report.refused),
        evaluated=report.evaluated,
        seconds=round(report.duration_s, 1),
        ended=report.ended.reason,
    )


def _kernel_text(kernel: Kernel) -> KernelText:
    x, y, z = map(str, kernel.grid)
    tx, ty, tz = map(str, kernel.threadgroup)
    return KernelText(
        name=kernel.name,
        inputs=kernel.inputs,
        outputs=kernel.outputs,
        source=kernel.source,
        header=kernel.header,
        grid=(x, y, z),
        threadgroup=(tx, ty, tz),
    )


def _word(passed: bool) -> str:
    return "passed" if passed else "failed"
