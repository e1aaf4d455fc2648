"""What a coder is told when a conversation begins: the task, the floor, the best, other ways."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kernelwright.agents.message import COLD_CACHE_S, Prompt
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.lesson import Lesson
from kernelwright.agents.roles.reply.dedup import signature
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.example import example_dtype, example_text, examples_for
from kernelwright.agents.roles.text.feedback import outcome, speed_of
from kernelwright.agents.roles.text.floor import floor_of
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.agents.roles.text.program_text import excerpt, short_id, shown
from kernelwright.agents.roles.text.prompt import build, fitted, render
from kernelwright.agents.session.tools.schema import tools
from kernelwright.agents.session.workbench import Sibling
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo

_TEMPLATES = "rules task write next examples"
_MOST_ATTEMPTS = 12
_LONGEST_LESSON = 300
_LONGEST_IDEA = 200
_LONGEST_STRATEGY = 1000
_LONGEST_INSPIRATION = 1500


@dataclass(frozen=True)
class Start:
    """From where a coder shall begin, and who is asked; the default asks for a new idea."""

    improve: Attempt | None = None
    """The program to start from."""
    inspirations: tuple[Attempt, ...] = ()
    """Programs that go about it in another way."""
    combines: bool = False
    """True where what is good about `improve` and the inspirations shall become one program."""
    model: str = ""
    """`provider:model`; empty for the first of the list."""


NEW_IDEA = Start()


@dataclass(frozen=True)
class Brief:
    """What is asked of a coder beside the task and its history."""

    start: Start = NEW_IDEA
    strategy: str = ""
    """What the planner had in mind."""
    lessons: tuple[Lesson, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    """Champions of tasks that compute the same at another size or dtype."""
    tool_names: tuple[str, ...] = ()
    """The tools that there are; all where none is named."""


_ALIKE = 1.005
"""Up to this ratio two programs are as fast as each other: more would show as 1.00."""


def coder_prompt(
    task: Task, device: DeviceInfo, history: Sequence[Attempt], brief: Brief
) -> Prompt:
    """Render what a coder is told when a conversation begins."""
    offered = tools(brief.tool_names)
    has_tools = len(offered) == len(tools())
    names, dtype = examples_for(task.graph), example_dtype(task.graph)
    slowest_s = max((a.evaluation.duration_s for a in history), default=0.0)
    templates = " ".join((_TEMPLATES, *(f"examples/{name}" for name in names)))

    def at(share: float) -> Prompt:
        # Half as many as they are at twice the share: examples are for every conversation.
        most = math.ceil(len(names) * min(1.0, 2 * share))
        examples = [example_text(name, dtype) for name in names[:most]]
        context = task_text(task, device, share)
        prompt = build(
            "coder",
            system={"device": device, "has_tools": has_tools},
            context=f"{context}\n\n{render('examples', {'examples': examples})}",
            request=render("write", _request(task, device, history, brief, share)),
            templates=templates,
        )
        return prompt.model_copy(
            update={"tools": offered, "keeps_cache_for_an_hour": slowest_s > COLD_CACHE_S}
        )

    return fitted(at)


def _request(
    task: Task, device: DeviceInfo, history: Sequence[Attempt], brief: Brief, share: float
) -> dict[str, object]:
    """Return what the request says of programs that there are, long ones at a share."""
    start, longest = brief.start, int(_LONGEST_INSPIRATION * share)
    best = start.improve or best_of(history)
    # Without a program of its own a task begins from a sibling's.
    seed = brief.siblings[0] if brief.siblings and best is None else None
    inspirations = [_inspiration(a, task, longest) for a in start.inspirations]
    return {
        "improve": start.improve is not None,
        "combines": start.combines,
        "strategy": brief.strategy[:_LONGEST_STRATEGY],
        "lessons": [lesson.sentence[:_LONGEST_LESSON] for lesson in brief.lessons],
        "siblings": [
            {"name": s.name, "task": s.task[:_LONGEST_IDEA], "idea": s.idea[:_LONGEST_IDEA]}
            for s in brief.siblings
        ],
        "seed": None if seed is None else excerpt(seed.program, 2 * longest),
        "champion": None if best is None else shown(best, Interface(task), share),
        "is_fastest": best is not None and best is best_of(history),
        "inspirations": inspirations,
        "floor": floor_of(task.graph, device),
        "from_floor": _times_floor(best_of(history), task, device),
        "attempts": [
            {
                "id": short_id(task, a.proposal.program),
                "idea": a.proposal.idea[:_LONGEST_IDEA],
                "outcome": outcome(a.evaluation)[:_LONGEST_IDEA],
            }
            for a in reversed(history[-math.ceil(_MOST_ATTEMPTS * share) :])
        ],
    }


def shown_in(history: Sequence[Attempt], start: Start) -> set[str]:
    """Return the programs whose texts an opening shows."""
    shown = [start.improve or best_of(history), *start.inspirations]
    return {attempt.proposal.program.id for attempt in shown if attempt is not None}


def next_step(task: Task, start: Start, known: Collection[str]) -> str:
    """Say in an open conversation what is asked for next; `known` texts are not shown again."""

    def one(attempt: Attempt) -> dict[str, str]:
        is_known = attempt.proposal.program.id in known
        return _inspiration(attempt, task, 0 if is_known else _LONGEST_INSPIRATION)

    return render(
        "next",
        {
            "parent": None if start.improve is None else one(start.improve) | _bound(start.improve),
            "inspirations": [one(attempt) for attempt in start.inspirations],
            "combines": start.combines,
        },
    )


def _bound(parent: Attempt) -> dict[str, str]:
    """Say with the idea of the program to improve what bounds it."""
    idea, bound = parent.proposal.idea[:_LONGEST_IDEA], parent.evaluation.bound
    return {"idea": f"{idea.rstrip('.')} (bound by {bound})" if bound else idea}


def _inspiration(attempt: Attempt, task: Task, longest: int) -> dict[str, str]:
    """Say what there is about a program, with an excerpt of its text where that may have room."""
    return {
        "id": short_id(task, attempt.proposal.program),
        "idea": attempt.proposal.idea[:_LONGEST_IDEA],
        "outcome": outcome(attempt.evaluation)[:_LONGEST_IDEA],
        "bound": attempt.evaluation.bound,
        "source": excerpt(attempt.proposal.program, longest) if longest else "",
    }


def _times_floor(best: Attempt | None, task: Task, device: DeviceInfo) -> str:
    floor = floor_of(task.graph, device)
    taken_us = None if best is None else best.evaluation.taken_us
    return "" if floor is None or taken_us is None else f"{taken_us / floor.time_us:.2f}"


def is_at_floor(task: Task, device: DeviceInfo, history: Sequence[Attempt]) -> bool:
    """Say whether the best program is so near the floor that nothing is left to gain."""
    floor, best = floor_of(task.graph, device), best_of(history)
    return floor is not None and best is not None and floor.is_reached_by(best.evaluation)


def news_of(task: Task, history: Sequence[Attempt]) -> str:
    """Say which program leads by now."""
    best = best_of(history)
    if best is None:
        return ""
    program = short_id(task, best.proposal.program)
    speed = speed_of(best.evaluation, only_strongest=True)
    return f"The best program is `{program}` by {best.proposal.author}: {speed or 'correct'}."


def standing(attempt: Attempt, history: Sequence[Attempt]) -> str:
    """Say whether a right program leads, and how far behind the best it is if not."""
    best = best_of(history)
    if best is None or not attempt.evaluation.is_correct:
        return ""
    if attempt.proposal.program.id == best.proposal.program.id:
        return "It is the best program so far."
    own, leader = attempt.proposal.program, best.proposal.program
    if leader.tunables and signature(own) == signature(leader):
        values = ", ".join(f"{t.name} = {t.value}" for t in leader.tunables)
        return f"The best program is this one with {values}."
    own_us, best_us = (a.evaluation.taken_us for a in (attempt, best))
    if own_us is None or best_us is None or own_us < best_us:
        return "It is not the best program."
    if own_us < _ALIKE * best_us:
        return "It is as fast as the best program, which was there before."
    return f"It is not the best program: it takes {own_us / best_us:.2f} times as long."


def best_of(history: Sequence[Attempt]) -> Attempt | None:
    """Return the correct attempt that is fastest as far as is known, the first among equals."""
    correct = [a for a in history if a.evaluation.is_correct]
    return min(correct, key=_slowness, default=None)


def _slowness(attempt: Attempt) -> tuple[float, float]:
    speedups = [s.ratio for s in attempt.evaluation.speedups if s.kind == "measured"]
    predicted = attempt.evaluation.predicted_us
    return -min(speedups, default=0.0), float("inf") if predicted is None else predicted
