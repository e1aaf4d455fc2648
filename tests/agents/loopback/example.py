"""The worked examples of the prompts as programs, and one of them as a conversation."""

import json
import re

import mlx.core as mx

from kernelwright.agents.roles.reply.reply_schema import ProgramDraft
from kernelwright.agents.roles.text.example import example_text
from kernelwright.ir.graph.dtype import Dtype
from tests.agents.loopback.model import ScriptedModel
from tests.agents.loopback.scene import checked
from tests.agents.loopback.wire import Calls, Said

_BLOCK = re.compile(r"```(\w+)\n(.*?)\n```", re.DOTALL)


def draft_in(example: str, dtype: Dtype = Dtype.FLOAT32) -> ProgramDraft:
    """The program that a worked example shows, its bodies put where it says they are."""
    blocks = _BLOCK.findall(example_text(example, dtype))
    bodies = [text for language, text in blocks if language == "metal"]
    draft = json.loads(next(text for language, text in blocks if language == "json"))
    for kernel, body in zip(draft["kernels"], bodies, strict=True):
        kernel["source"] = body
    return ProgramDraft.model_validate(draft)


def causal_conv_silu(x: mx.array, weight: mx.array) -> mx.array:
    """A depthwise causal convolution of more taps than templates have, and its gate."""
    padded = mx.pad(x, [(0, 0), (weight.shape[1] - 1, 0), (0, 0)])
    mixed = mx.conv1d(padded, weight, groups=weight.shape[0])
    return mixed * mx.sigmoid(mixed)


def causal_conv_inputs() -> tuple[mx.array, mx.array]:
    return mx.zeros((1, 64, 128), mx.float16), mx.zeros((128, 24, 1), mx.float16)


GUARD = """\
    if (time + k < WIDTH - 1) {
        continue;
    }
"""
_LOOP = "for (uint k = 0; k < WIDTH; k++) {\n"
_CONVOLUTION = """\
uint channel = thread_position_in_grid.x;
uint time = thread_position_in_grid.y;
float sum = 0.0f;
for (uint k = 0; k < WIDTH; k++) {
    // Before the first step there are zeros.
GUARD    uint source = (time + k + 1 - WIDTH) * CHANNELS + channel;
    sum += float(x[source]) * float(weight[channel * WIDTH + k]);
}
out[time * CHANNELS + channel] = half(sum / (1.0f + metal::precise::exp(-sum)));
"""


def convolution(guard: str) -> ProgramDraft:
    """One channel at one step a thread; without its guard it reads before the first step."""
    kernel = {
        "name": "causal_conv_silu",
        "inputs": ["x", "weight"],
        "outputs": ["out"],
        "header": "",
        "source": _CONVOLUTION.replace("GUARD", guard),
        "template": [{"name": "WIDTH", "value": "n2"}, {"name": "CHANNELS", "value": "n1"}],
        "grid": ["n1", "n0", 1],
        "threadgroup": ["threads", 1, 1],
    }
    return ProgramDraft.model_validate(
        {
            "idea": "One channel at one step a thread: padding, convolution and gate in one pass.",
            "any_size": [],
            "arrays": [],
            "tunables": [{"name": "threads", "choices": [32, 64, 128], "value": 64}],
            "kernels": [kernel],
        }
    )


def convolution_model() -> ScriptedModel:
    """Forgets the guard, then corrects itself."""
    unguarded = (
        convolution("")
        .kernels[0]
        .source.replace("    // Before the first step there are zeros.\n", "")
    )
    first = convolution("")
    wrong = first.model_copy(
        update={"kernels": [first.kernels[0].model_copy(update={"source": unguarded})]}
    )
    guard = {
        "kernel": "causal_conv_silu",
        "part": "source",
        "search": _LOOP,
        "replace": _LOOP + GUARD,
    }
    return ScriptedModel(
        Said("Padding, convolution and gate in one pass.", calls=(checked(wrong),)),
        Said(
            "The first steps read before the array.",
            calls=(Calls.of("edit", draft="d1", edits=[guard]),),
            thinking="At time 0 the index lies WIDTH - 1 rows before x. Skip those taps.",
        ),
        Said(calls=(Calls.of("measure", draft="d2", tunables=[]),)),
        Said(calls=(Calls.of("submit", draft="d2", program=None),)),
    )
