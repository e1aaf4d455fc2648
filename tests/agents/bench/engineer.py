"""A scripted engineer for the yardstick: knows some tasks by heart, and says so of the others."""

from collections.abc import Sequence

from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from tests.agents.loopback.model import role_of, whole
from tests.agents.loopback.scene import DONE, checked
from tests.agents.loopback.server import Response
from tests.agents.loopback.wire import Calls, Heard, Said

NAME = "scripted-engineer"
"""What the model is called: its scores are nobody else's."""


def program(
    source: str,
    inputs: Sequence[str],
    grid: list[int],
    *,
    outputs: Sequence[str] = ("out",),
    group: list[int] | None = None,
    idea: str = "Everything in one pass.",
) -> ProgramDraft:
    """One kernel of fixed sizes."""
    kernel = {
        "name": "fused",
        "inputs": list(inputs),
        "outputs": list(outputs),
        "header": "",
        "source": source.strip(),
        "template": [],
        "grid": grid,
        "threadgroup": group or [256, 1, 1],
    }
    record = {"idea": idea, "any_size": [], "arrays": [], "tunables": [], "kernels": [kernel]}
    return ProgramDraft.model_validate(record)


_HORNER = """
uint i = thread_position_in_grid.x;
auto value = ((const device float4*)x)[i];
float4 y = 0.05f * value + 0.125f;
y = y * value - 0.2f;
y = y * value + 0.5f;
y = y * value - 1.0f;
((device float4*)out)[i] = y * value + 0.25f;
"""
_BLEND = """
uint i = thread_position_in_grid.x;
out[i] = mask[i] ? 0.75f * x[i] + 0.25f * y[i] : metal::select(
    metal::min(metal::max(x[i], -1.0f), 1.0f), x[i], metal::isnan(x[i]));
"""
_POLAR = """
uint i = thread_position_in_grid.x;
float a = real[i];
float b = imaginary[i];
out0[i] = metal::precise::sqrt(a * a + b * b);
out1[i] = metal::precise::atan2(b, a);
"""
_TAPS = """
uint i = thread_position_in_grid.x;
uint channel = i % 64;
uint time = i / 64 % 256;
float sum = 0.0f;
for (uint k = 0; k < 4; k++) {
    float value = time + k < 3 ? 0.0f : x[i + k * 64 - 192];
    sum += value * taps[k * 64 + channel];
}
out[i] = sum;
"""
_RESPONSE = """
uint i = thread_position_in_grid.x;
uint channel = i % 32;
uint pixel = i - channel;
float energy = 0.0f;
for (int k = -2; k <= 2; k++) {
    int c = int(channel) + k;
    if (c >= 0 && c < 32) {
        energy += x[pixel + c] * x[pixel + c];
    }
}
out[i] = x[i] * metal::precise::pow(1.0f + 2e-5f * energy, -0.75f);
"""
_RIGHT, _SLIP = "if (c >= 0 && c < 32)", "if (c >= 0 && c <= 32)"
_GRAVITY = """
uint i = thread_position_in_grid.x;
float3 here = float3(position[3 * i], position[3 * i + 1], position[3 * i + 2]);
float3 sum = float3(0.0f);
for (uint j = 0; j < 256; j++) {
    float3 apart = float3(position[3 * j], position[3 * j + 1], position[3 * j + 2]) - here;
    float inverse = metal::precise::rsqrt(metal::dot(apart, apart) + 0.01f);
    sum += apart * (mass[j] * inverse * inverse * inverse);
}
out[3 * i] = sum.x;
out[3 * i + 1] = sum.y;
out[3 * i + 2] = sum.z;
"""
PROGRAMS = {
    "horner": program(_HORNER, ["x"], [65536, 1, 1], idea="Four elements a thread."),
    "masked_blend": program(_BLEND, ["x", "y", "mask"], [262144, 1, 1]),
    "complex_magnitude_phase": program(
        _POLAR, ["real", "imaginary"], [262144, 1, 1], outputs=("out0", "out1")
    ),
    "causal_taps": program(_TAPS, ["x", "taps"], [65536, 1, 1]),
    "response_norm": program(_RESPONSE, ["x"], [16384, 1, 1]),
    "gravity": program(_GRAVITY, ["position", "mass"], [256, 1, 1], group=[32, 1, 1]),
}


def engineer(request: Heard) -> Response:
    """Answer as somebody who checks, mends, measures and submits; the past is in the request."""
    if role_of(request) == "planner":
        return whole(request)
    title = request.messages[0][1].split("# The task: ", 1)[-1]
    task = title.split("\n", 1)[0].split("/")[0].strip()
    known = PROGRAMS.get(task)
    if known is None:
        return DONE
    if "check" not in request.tools:
        said = Said(calls=(Calls.of("submit", draft="", program=known.model_dump()),))
        return said if len(request.messages) == 1 else DONE
    turn = len(request.messages) // 2
    script = _with_a_slip(known) if task == "response_norm" else _at_once(known)
    return script[turn] if turn < len(script) else DONE


def _at_once(known: ProgramDraft) -> list[Said]:
    return [
        Said("One pass over memory.", calls=(checked(known),), thinking="What must move?"),
        Said(calls=(Calls.of("measure", draft="d1", tunables=[]),)),
        Said(calls=(Calls.of("submit", draft="d1", program=None),)),
    ]


def _with_a_slip(known: ProgramDraft) -> list[Said]:
    (kernel,) = known.kernels
    slip = kernel.model_copy(update={"source": kernel.source.replace(_RIGHT, _SLIP)})
    edit = {"kernel": "fused", "part": "source", "search": _SLIP, "replace": _RIGHT}
    return [
        Said(calls=(checked(known.model_copy(update={"kernels": [slip]})),)),
        Said(
            calls=(Calls.of("edit", draft="d1", edits=[edit]),),
            thinking="The last pixel reads behind the array.",
        ),
        Said(calls=(Calls.of("measure", draft="d2", tunables=[]),)),
        Said(calls=(Calls.of("submit", draft="d2", program=None),)),
    ]
