"""The worked examples of the prompts as programs, and one of them as a conversation."""

import json
import re

import mlx.core as mx

from kernelwright.agents.draft import ProgramDraft
from kernelwright.agents.prompt import source
from tests.agents.loopback.model import ScriptedModel
from tests.agents.loopback.scene import programs
from tests.agents.loopback.wire import Said

_BLOCK = re.compile(r"```(\w+)\n(.*?)\n```", re.DOTALL)
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"


def draft_in(example: str) -> ProgramDraft:
    """The program that a worked example shows, its bodies put where it says they are."""
    blocks = _BLOCK.findall(source(f"examples/{example}.md"))
    bodies = [text for language, text in blocks if language == "metal"]
    draft = json.loads(next(text for language, text in blocks if language == "json"))
    for kernel, body in zip(draft["kernels"], bodies, strict=True):
        kernel["source"] = body
    return ProgramDraft.model_validate(draft)


def add_rms_norm(x: mx.array, residual: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x + residual, weight, 1e-5)


def norm_draft() -> ProgramDraft:
    """The row-wise example, rounding the sum as MLX does."""
    example = draft_in("rowwise")
    kernel = example.kernels[0]
    body = kernel.source.replace("float(xs[c]) + float(rs[c])", "float(T(xs[c] + rs[c]))")
    return example.model_copy(update={"kernels": [kernel.model_copy(update={"source": body})]})


def norm_model() -> ScriptedModel:
    """Forgets the barrier, then corrects itself."""
    right = norm_draft()
    kernel = right.kernels[0]
    racing = kernel.model_copy(update={"source": kernel.source.replace(BARRIER, "")})
    wrong = right.model_copy(update={"kernels": [racing]})
    return ScriptedModel(Said(programs(wrong)), right)
