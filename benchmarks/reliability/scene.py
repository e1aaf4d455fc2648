"""A short campaign: three functions, a scripted model, caps that are never reached."""

from pathlib import Path

import mlx.core as mx

from kernelwright.agents.budget import Caps
from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from kernelwright.campaign import Captured, Subject, capture_subjects
from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from tests.agents.loopback.model import role_of, whole
from tests.agents.loopback.scene import (
    BODY,
    CHEAT,
    COLUMNS,
    DONE,
    ROWS,
    correction,
    draft,
    submitted,
)
from tests.agents.loopback.server import Response
from tests.agents.loopback.wire import Heard, Said

MODEL = "openai:gpt-5"
NEVER = 1_000_000
"""Deaths before a candidate is given up: random kills hit the innocent again and again."""


def double(x: mx.array) -> mx.array:
    """Return 2x + 1."""
    return x * 2.0 + 1.0


def triple(x: mx.array) -> mx.array:
    """Return 3x + 1."""
    return x * 3.0 + 1.0


def softmax(x: mx.array) -> mx.array:
    """Return the softmax of every row."""
    return mx.softmax(x, axis=-1)


def captured() -> Captured:
    """Trace the three functions; nothing is computed."""
    x, rows = mx.zeros((ROWS, COLUMNS)), mx.zeros((4, 8))
    inputs = ((double, x), (triple, x), (softmax, rows))
    return capture_subjects(
        Subject(function.__name__, function, (value,), {}, __file__) for function, value in inputs
    )


def spec(
    base_url: str, caps: Caps, evaluations: int | None = None, seconds: float | None = None
) -> CampaignSpec:
    """Return what every campaign is asked to do."""
    return CampaignSpec(
        name="reliability",
        devices=("simulator",),
        functions=tuple(CampaignFunction(target=name) for name in ("double", "triple", "softmax")),
        folder=str(Path(__file__).parent),
        models=(MODEL,),
        base_url=base_url,
        caps=caps,
        evaluations=evaluations,
        seconds=seconds,
        candidates_per_task=8,
        patience=8,
        batch=2,
        most_deaths=NEVER,
    )


def reply(request: Heard) -> Response:
    """Answer as the scripted model does: from the request alone, so that it may be asked again.

    The coder slips, cheats and is right in one turn, once, and mends the slip in the next.
    """
    role = role_of(request)
    if role == "planner":
        return whole(request)
    factor = 3 if "broadcast(3" in request.text else 2
    written = _written(factor)
    if role == "repairer":
        return Said(correction("Found it.", written["mended"]))
    opening = request.messages[0][1]
    turn = len(request.messages) // 2
    if "softmax" in opening or "A slip." in opening or turn > 1:
        return DONE
    if turn == 1:
        return submitted(written["mended"])
    return submitted(written["slip"], written["cheat"], written["right"])


def _written(factor: int) -> dict[str, ProgramDraft]:
    body = BODY.replace("2.0f", f"{factor}.0f")
    return {
        "slip": draft(body.replace(f"{factor}.0f", f"{factor}.0g"), "A slip."),
        "cheat": draft(CHEAT, "The usual values."),
        "right": draft(body, "One element a thread, small groups.", group=32),
        "mended": draft(body, "A slip."),
    }
