"""Repairers: one that asks a language model, and one that asks several others in turn."""

from collections.abc import Sequence

from kernelwright.agents.message import Prompt, Purpose
from kernelwright.agents.offline.repairer import AUTHOR as OFFLINE
from kernelwright.agents.protocols import Attempt, Proposal, Repairer
from kernelwright.agents.providers.fault import ReplyError
from kernelwright.agents.roles.lineage import is_repairable
from kernelwright.agents.roles.reply.dedup import mark_of, marks
from kernelwright.agents.roles.reply.reply_schema import Correction
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.feedback import LONGEST, diagnosis
from kernelwright.agents.roles.text.graph_text import task_text
from kernelwright.agents.roles.text.program_text import shown
from kernelwright.agents.roles.text.prompt import build, fitted, render
from kernelwright.agents.session.async_bridge import AsyncBridge
from kernelwright.errors import InputError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo


class ModelRepairer:
    """Asks for a whole corrected program.

    It remembers nothing: whether another round is worth it, `lineage` reads from the history.
    """

    def __init__(self, board: AsyncBridge) -> None:
        self._board = board

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Return a correction; None when there is nothing to correct or the model has none."""
        program = failed.proposal.program
        if not is_repairable(failed) or failed.proposal.author == OFFLINE:
            # A template that fails is ours to mend, and may be a hundred times as long as a kernel.
            return None
        interface = Interface(task)
        known = mark_of(failed)
        purpose = Purpose(role="repairer", task=task.fingerprint, parent=program.id)
        try:
            answer = self._board.ask(
                repairer_prompt(task, device, failed),
                Correction,
                purpose,
                lambda reply: _unusable(reply, interface, known),
            )
        except ReplyError:
            return None
        corrected = answer.record.program
        note = corrected.unserved_sizes(interface)
        idea = failed.proposal.idea
        return Proposal(
            program=corrected.program(interface),
            author=answer.model,
            idea=idea if note in idea else f"{idea} {note}",
            parent=program.id,
        )


class FirstRepairer:
    """Asks one repairer after another; the cheap ones come first."""

    def __init__(self, repairers: Sequence[Repairer]) -> None:
        self._repairers = tuple(repairers)

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Return the first correction that any of them has."""
        for repairer in self._repairers:
            if (proposal := repairer.repair(task, device, failed)) is not None:
                return proposal
        return None


def repairer_prompt(task: Task, device: DeviceInfo, failed: Attempt) -> Prompt:
    """Render what a repairer is told."""
    interface, found = Interface(task), diagnosis(failed.evaluation, failed.proposal.program)

    def at(share: float) -> Prompt:
        request = render(
            "repair",
            {
                "program": shown(failed, interface, share),
                "diagnosis": found[: int(LONGEST * share)],
            },
        )
        return build(
            "repairer",
            system={"device": device},
            context=task_text(task, device, share),
            request=request,
            templates="rules task repair",
        )

    return fitted(at)


def _unusable(reply: Correction, interface: Interface, known: str) -> str:
    try:
        program = reply.program.program(interface)
    except InputError as e:
        return str(e)
    return "nothing that matters has changed" if known in marks(program) else ""
