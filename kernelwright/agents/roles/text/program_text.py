"""Programs as prompts show them: the launch, then the texts, long ones summarised."""

import json

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.reply.reply_schema import drafted
from kernelwright.agents.roles.reply.task_signature import Interface
from kernelwright.agents.roles.text.feedback import profile
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program

LONGEST_SOURCE = 6000
"""Bytes of a text that prompts show whole; templates unroll far longer ones."""
ID_DIGITS = 8
"""Of a candidate's id, those that people are shown."""
_HEAD_LINES, _TAIL_LINES = 40, 10
_LONGEST_IDEA = 400
_LONGEST_PROFILE = 3000


def shown(attempt: Attempt, interface: Interface, share: float = 1.0) -> dict[str, object]:
    """Return an attempt as templates show it: a draft, its texts apart, its cost.

    Args:
        attempt: the program and its verdict.
        interface: the names of its task's arrays.
        share: of their usual length that long parts may have.
    """
    program = attempt.proposal.program
    draft = drafted(program, attempt.proposal.idea[:_LONGEST_IDEA], interface).model_dump()
    kernels = []
    most = room = int(LONGEST_SOURCE * share)
    for kernel in draft["kernels"]:
        texts = {}
        for part in ("header", "source"):
            texts[part] = summarised(kernel[part], room)
            room = max(room - len(texts[part].encode()), most // 6)
        kernels.append({"name": kernel["name"], **texts})
        kernel["source"] = "(below)"
        kernel["header"] = "(below)" if kernel["header"] else ""
    return {
        "id": short_id(interface.task, program),
        "idea": attempt.proposal.idea[:_LONGEST_IDEA],
        "draft": summarised(json.dumps(draft), most),
        "kernels": kernels,
        "profile": profile(attempt.evaluation)[: int(_LONGEST_PROFILE * share)],
    }


def short_id(task: Task, program: Program) -> str:
    """Return a program's id as `kernelwright show` and `history` print it."""
    return task.candidate_id(program.id)[:ID_DIGITS]


def excerpt(program: Program, most: int) -> str:
    """Return a program's bodies, cut to so many bytes in all."""
    texts = [f"// {kernel.name}\n{kernel.source.strip()}" for kernel in program.kernels]
    return summarised("\n\n".join(texts), most)


def summarised(text: str, most: int = LONGEST_SOURCE) -> str:
    """Return a text whole, or its beginning and end with how much lies between."""
    if len(text.encode()) <= most:
        return text
    lines = text.splitlines()
    head = "\n".join(lines[:_HEAD_LINES])[: most * 3 // 4]
    tail = "\n".join(lines[-_TAIL_LINES:])[-most // 8 :] if len(lines) > _HEAD_LINES else ""
    left_out = f"… {len(lines)} lines and {len(text)} characters in all …"
    return "\n".join(filter(None, (head, left_out, tail)))
