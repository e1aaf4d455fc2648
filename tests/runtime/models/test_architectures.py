"""Models of mlx-lm decode as they did with kernels in the place of their parts."""

from typing import cast

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module

from benchmarks.coverage.configuration import Architecture, architectures
from kernelwright.runtime.models.install import optimize_model, restore_model
from tests.runtime.models.replaying import Replaying, decode, served_classes

# One of a kind each: dense, biased, parallel, experts, latent attention, windows, state spaces.
_SAMPLE = {
    *("llama", "qwen2", "qwen3_moe", "cohere", "deepseek_v3", "gemma3_text", "gpt_oss"),
    *("mamba2", "qwen3_next"),
}
_CANNOT_RUN = frozenset({"bitnet", "muse_spark", "prism_hadamard_qwen35"})
"""Metal kernels of its own, or weights packed by another tool: nothing to compare with here."""


def _marked(architecture: Architecture) -> object:
    marks = () if architecture.name in _SAMPLE else pytest.mark.slow
    return pytest.param(architecture, id=architecture.name, marks=marks)


@pytest.mark.parametrize(
    "architecture", [_marked(a) for a in architectures() if a.name not in _CANNOT_RUN]
)
def test_a_model_decodes_the_same_tokens(architecture: Architecture) -> None:
    mx.random.seed(7)
    model = cast("Module", architecture.build())
    mx.eval(model.parameters())  # type: ignore[no-untyped-call]
    tokens, logits = decode(model)
    server = Replaying()
    assert optimize_model(model, server) is model
    for _ in range(2):
        found, same = decode(model)
        assert found == tokens
        # Functions that models compile have other last bits than their ops one by one.
        assert mx.allclose(same, logits, rtol=1e-4, atol=1e-4)
    assert server.runs > 0
    assert served_classes(model)
    restore_model(model)
    ran = server.runs
    assert decode(model, 2)[0] == tokens[:2]
    assert server.runs == ran
