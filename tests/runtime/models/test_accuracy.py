"""What kernels cost in accuracy is compared with what the model's own dtype costs."""

import mlx.core as mx
import pytest

from kernelwright.runtime.models import accuracy
from kernelwright.runtime.models.accuracy import Accuracy, compare_accuracy
from kernelwright.runtime.models.install import optimize_model
from kernelwright.runtime.models.target import build_model
from tests.runtime.models.replaying import Replaying, decode
from tests.runtime.models.test_workload import CONFIG


@pytest.mark.parametrize("quantization", [None, {"group_size": 32, "bits": 4}])
def test_kernels_that_give_what_mlx_gives_lose_what_it_loses(
    quantization: dict[str, int] | None,
) -> None:
    model = build_model({**CONFIG, **({"quantization": quantization} if quantization else {})})
    server = Replaying()
    optimize_model(model, server)
    found = compare_accuracy(model, prompts=1, tokens=6, length=5)
    assert server.runs
    assert found is not None
    assert found.tokens == 7
    assert 1e-4 < found.untouched < 0.1
    assert found.holds
    assert found.tuned == pytest.approx(found.untouched, rel=0.5)
    tokens, _ = decode(model, 3)
    assert len(tokens) == 3, "the model goes on with its own weights"


def test_kernels_that_lose_more_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(CONFIG)
    optimize_model(model, Replaying())
    arms = iter((0.0, 0.5))
    own = accuracy._stepwise

    def off(*arguments: object) -> mx.array:
        return own(*arguments) + next(arms)  # type: ignore[arg-type]

    monkeypatch.setattr(accuracy, "_stepwise", off)
    found = compare_accuracy(model, prompts=1, tokens=3, length=4)
    assert found is not None
    assert not found.holds
    assert not Accuracy(tokens=1, untouched=0.01, tuned=0.0111).holds
    assert Accuracy(tokens=1, untouched=0.01, tuned=0.0109).holds


def test_a_model_that_computes_in_float32_is_its_own_measure() -> None:
    assert compare_accuracy(build_model({**CONFIG, "torch_dtype": "float32"})) is None


def test_a_copy_that_would_not_fit_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "_MOST_COPIED_BYTES", 1000)
    assert compare_accuracy(build_model(CONFIG)) is None
