"""An attacker that asks a language model for wrong programs which the evaluator may accept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.roles.reply.dedup import signature
from kernelwright.agents.roles.reply.reply_schema import Draft, ProgramDraft
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.agents.roles.text.program_text import shown
from kernelwright.agents.roles.text.prompt import build, fitted, render
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.errors import InputError
from kernelwright.evaluator.inputs.stated_case import Recipe, StatedCase
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

_MOST_ATTEMPTS = 12


class EditDraft(Draft):
    """Elements of an input that are set, in memory order."""

    start: int
    stop: int
    step: int
    value: str


class InputDraft(Draft):
    """How one input is filled."""

    fill: str
    value: str
    edits: list[EditDraft]


class TriggerDraft(Draft):
    """Inputs on which a program is said to be wrong."""

    seed: int
    inputs: list[InputDraft]

    def recipe(self, task: Task) -> Recipe:
        """Return the recipe.

        Raises:
            InputError: it makes no inputs that the task may be given.
        """
        try:
            recipe = Recipe.model_validate(self.model_dump())
        except ValidationError as e:
            detail = e.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, detail["loc"]))
            raise InputError(f"trigger.{place}: {detail['msg']}") from e
        StatedCase.of(task.graph, recipe)
        return recipe


class AttackDraft(Draft):
    """A wrong program, why the judge should miss it, and inputs that show it."""

    idea: str
    program: ProgramDraft
    trigger: TriggerDraft


class Attacks(Draft):
    """Attacks on the judge, the most promising first."""

    attacks: list[AttackDraft]


class Attack(Record):
    """A program that somebody believes to be wrong and acceptable."""

    program: Program
    author: str
    """`provider:model`, or `mutation`."""
    idea: str
    trigger: Recipe | None = None
    dollars: float = 0.0


@dataclass(frozen=True)
class TriedAttack:
    """An idea and what became of it, in a few words."""

    idea: str
    outcome: str


class ModelAttacker:
    """Asks for several attacks at once; what is no program, or no trigger, goes no further."""

    def __init__(self, board: AsyncBridge) -> None:
        self._board = board

    def attack(
        self,
        task: Task,
        device: DeviceInfo,
        champion: Attempt,
        tried: Sequence[TriedAttack],
        *,
        count: int,
    ) -> tuple[Attack, ...]:
        """Return attacks that start from an accepted program; none when out of ideas."""
        interface = Interface(task)
        known = signature(champion.proposal.program)
        purpose = Purpose(
            role="attacker", task=task.fingerprint, parent=champion.proposal.program.id
        )
        try:
            answer = self._board.ask(
                attacker_prompt(task, device, champion, tried, count),
                Attacks,
                purpose,
                lambda reply: _unusable(reply, task, interface, known),
            )
        except ReplyError:
            return ()
        usable = [
            draft for draft in answer.record.attacks if not _problem(draft, task, interface, known)
        ][:count]
        return tuple(
            Attack(
                program=draft.program.program(interface),
                author=answer.model,
                idea=draft.idea,
                trigger=draft.trigger.recipe(task),
                dollars=answer.cost.dollars / len(usable),
            )
            for draft in usable
        )


def attacker_prompt(
    task: Task,
    device: DeviceInfo,
    champion: Attempt,
    tried: Sequence[TriedAttack],
    count: int,
) -> Prompt:
    """Render what an attacker is told: the task, a right program, what the judge promises."""
    interface = Interface(task)

    def at(share: float) -> Prompt:
        latest = tried[-math.ceil(_MOST_ATTEMPTS * share) :]
        request = render(
            "attack",
            {
                "count": count,
                "program": shown(champion, interface, share),
                "attempts": [{"idea": t.idea, "outcome": t.outcome} for t in reversed(latest)],
            },
        )
        return build(
            "attacker",
            system={"device": device, "promises": render("promises", {})},
            context=task_text(task, device, share),
            request=request,
            templates="rules task attack promises",
        )

    return fitted(at)


def _unusable(reply: Attacks, task: Task, interface: Interface, known: str) -> str:
    """Say why nothing in a reply can be tried; empty when something can, or when it is empty."""
    problems = [_problem(draft, task, interface, known) for draft in reply.attacks]
    return "; ".join(dict.fromkeys(problems)) if problems and all(problems) else ""


def _problem(draft: AttackDraft, task: Task, interface: Interface, known: str) -> str:
    try:
        program = draft.program.program(interface)
        draft.trigger.recipe(task)
    except InputError as e:
        return str(e)
    return "that is the accepted program itself" if signature(program) == known else ""
