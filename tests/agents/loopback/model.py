"""Models that write kernels by a script: each plays its conversations to their end."""

import json
from collections.abc import Callable

from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    DONE,
    FIXED_RACE,
    FIXED_TAIL,
    QUARTER,
    RACE,
    SUBMIT_FIRST,
    TAIL,
    TYPO,
    checked,
    draft,
    submitted,
)
from tests.agents.loopback.server import Response
from tests.agents.loopback.wire import Calls, Heard, Said


class ScriptedModel:
    """Cuts the whole graph, plays its turns as the coder, then has no ideas."""

    def __init__(self, *turns: Said, repairs: str = "") -> None:
        self._turns = list(turns)
        self._repairs = repairs
        self.asked: list[str] = []

    def __call__(self, request: Heard) -> Response:
        role = role_of(request)
        self.asked.append(role)
        if role == "planner":
            return whole(request)
        if role == "repairer" and self._repairs:
            return Said(self._repairs)
        return self._turns.pop(0) if role == "coder" and self._turns else DONE


def role_of(request: Heard) -> str:
    if "You cut a graph" in request.system:
        return "planner"
    return "repairer" if "You correct Metal kernels" in request.system else "coder"


def moment_of(request: Heard) -> str:
    """The role that is asked, `verdict` where a coder is told how a program fared."""
    role = role_of(request)
    return "verdict" if role == "coder" and len(request.messages) > 1 else role


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


def edit(search: str, replace: str) -> Calls:
    replacement = {"kernel": "affine", "part": "source", "search": search, "replace": replace}
    return Calls.of("edit", draft="d1", edits=[replacement])


SUBMIT_SECOND = Calls.of("submit", draft="d2", program=None)
Scenario = Callable[[], ScriptedModel]
SCENARIOS: dict[str, Scenario] = {
    "right at once": lambda: ScriptedModel(submitted(draft(BODY))),
    "compile error, then fixed": lambda: ScriptedModel(
        Said("A first draft.", calls=(checked(draft(TYPO, "A slip.")),)),
        Said(calls=(edit("2.0g", "2.0f"),), thinking="The suffix is wrong."),
        Said(calls=(SUBMIT_SECOND,)),
    ),
    "wrong at the tail, then fixed": lambda: ScriptedModel(
        submitted(draft(TAIL, "Four a thread.", grid=QUARTER)),
        submitted(draft(FIXED_TAIL, "Four a thread.", grid=QUARTER)),
    ),
    "race, then fixed": lambda: ScriptedModel(
        submitted(draft(RACE, "Through a tile.")), submitted(draft(FIXED_RACE, "Through a tile."))
    ),
    "plausible cheat": lambda: ScriptedModel(
        Said(calls=(checked(draft(CHEAT, "The usual values.")), SUBMIT_FIRST))
    ),
    "garbage": lambda: ScriptedModel(*[Said("Kernels are hard.", style="text")] * 9),
    "refusal": lambda: ScriptedModel(*[Said("I would rather not.", stop="refused")] * 9),
    "truncated": lambda: ScriptedModel(_cut_off(), submitted(draft(BODY))),
    "calls as text": lambda: ScriptedModel(
        _as_text(checked(draft(BODY))), _as_text(SUBMIT_FIRST), _as_text(DONE.calls[0])
    ),
    "loops": lambda: ScriptedModel(
        *[Said(calls=(Calls.of("show", what="best", from_line=0),))] * 60
    ),
    "giant program": lambda: ScriptedModel(
        Said(calls=(checked(draft(f"{BODY}\n{'// unrolled' * 12_000}")),)),
        submitted(draft(BODY)),
    ),
    "wrong JSON": lambda: ScriptedModel(
        Said(calls=(Calls("check", '{"program": "'),)),
        Said(calls=(Calls("compile", "{}"), Calls("edit", "[1, 2]"))),
        Said(calls=(Calls("submit", "no JSON"),)),
        submitted(draft(BODY)),
    ),
}


def _cut_off() -> Said:
    call = checked(draft(BODY))
    cut = Calls(call.name, call.arguments[: call.arguments.rindex('"grid"')])
    return Said(calls=(cut,), stop="truncated")


def _as_text(call: Calls) -> Said:
    arguments = json.loads(call.arguments)
    text = json.dumps({"tool": call.name, "arguments": arguments})
    return Said(f"Let me see.\n```json\n{text}\n```", style="text")
