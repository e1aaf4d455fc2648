"""Models that write kernels by a script: each plays one conversation to its end."""

import json
from collections.abc import Callable

from kernelwright.agents.roles.reply_schema import ProgramDraft
from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    FIXED_RACE,
    FIXED_TAIL,
    QUARTER,
    RACE,
    TAIL,
    TYPO,
    correction,
    draft,
    programs,
)
from tests.agents.loopback.server import Response
from tests.agents.loopback.wire import Heard, Said

NOTHING = Said(programs())


class ScriptedModel:
    """Cuts the whole graph, writes one program, corrects it when asked to, then has no ideas."""

    def __init__(self, first: Said, mended: ProgramDraft | None = None) -> None:
        self._first = first
        self._mended = mended
        self.asked: list[str] = []

    def __call__(self, request: Heard) -> Response:
        role = role_of(request)
        self.asked.append(role)
        if role == "planner":
            return whole(request)
        if role == "repairer" and self._mended is not None:
            return Said(correction("Found it.", self._mended))
        if role == "coder" and self.asked.count("coder") == 1:
            return self._first
        return NOTHING


def role_of(request: Heard) -> str:
    if "You cut a graph" in request.system:
        return "planner"
    return "repairer" if "You correct Metal kernels" in request.system else "coder"


def whole(request: Heard) -> Said:
    """The cut that fuses every node of the graph in the prompt."""
    lines = request.messages[0][1].splitlines()
    numbers = [line.split(":")[0] for line in lines if line.split(":")[0].isdigit()]
    region = {
        "nodes": [int(number) for number in numbers],
        "strategy": "A few elements a thread.",
        "benefit": "One pass over memory.",
    }
    return Said(json.dumps({"regions": [region], "left": []}))


Scenario = Callable[[], ScriptedModel]
SCENARIOS: dict[str, Scenario] = {
    "right at once": lambda: ScriptedModel(Said(programs(draft(BODY)))),
    "compile error, then fixed": lambda: ScriptedModel(
        Said(programs(draft(TYPO, "A slip."))), draft(BODY, "A slip.")
    ),
    "wrong at the tail, then fixed": lambda: ScriptedModel(
        Said(programs(draft(TAIL, "Four a thread.", grid=QUARTER))),
        draft(FIXED_TAIL, "Four a thread.", grid=QUARTER),
    ),
    "race, then fixed": lambda: ScriptedModel(
        Said(programs(draft(RACE, "Through a tile."))), draft(FIXED_RACE, "Through a tile.")
    ),
    "plausible cheat": lambda: ScriptedModel(Said(programs(draft(CHEAT, "The usual values.")))),
    "garbage": lambda: ScriptedModel(Said("Kernels are hard.", style="text")),
    "refusal": lambda: ScriptedModel(Said("I would rather not.", stop="refused")),
    "truncated": lambda: ScriptedModel(_cut_off()),
}


def _cut_off() -> Said:
    whole_reply = programs(draft(BODY), draft(CHEAT))
    return Said(whole_reply[: whole_reply.rindex('"grid"')], stop="truncated")
