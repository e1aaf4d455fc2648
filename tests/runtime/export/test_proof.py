"""What a proof computes of an export, and what it only traces."""

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.proof import _same_launches


def test_what_zeros_stand_for_in_a_trace_is_never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[mx.array] = []
    monkeypatch.setattr(mx, "eval", computed.extend)
    called, traced = mx.ones((4,), mx.int32), mx.zeros((4,), mx.int32)
    check = _same_launches(
        "mx.compile",
        lambda: list(mx.divmod(called, called)),
        lambda: list(mx.divmod(called, traced)),
        [],
    )
    assert check.outcome == "equal"
    # Divided by such zeros, integers of MLX's CPU backend would end the process.
    assert len(computed) == 2
