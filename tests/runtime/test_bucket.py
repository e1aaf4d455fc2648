"""A kernel serves smaller sizes by padding, where that changes nothing."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.runtime.bucket import Buckets, is_harmless
from kernelwright.runtime.optimize import Optimized, optimize
from kernelwright.store import KernelStore
from tests.runtime.test_optimize import crown, gated


def arrays(rows: int) -> list[mx.array]:
    random = np.random.default_rng(rows)
    return [mx.array(random.standard_normal((rows, 64), dtype=np.float32)) for _ in range(2)]


def bucketed(url: str) -> Optimized:
    made = optimize(gated, store=url, device="simulator", buckets=[8, 4], padded=(0, 1))
    assert isinstance(made, Optimized)
    return made


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = str(tmp_path / "kernels.db")
    crown(path, gated, *arrays(4))
    return path


def test_a_smaller_size_runs_the_next_kernel(url: str) -> None:
    fast = bucketed(url)
    for rows in (4, 3, 1):
        found = fast(*arrays(rows))
        assert isinstance(found, mx.array)
        assert found.shape == (rows, 64)
        assert mx.allclose(found, gated(*arrays(rows))).item()
    told = fast.explain(*arrays(3))
    assert told.path == "kernels"
    assert told.reason == "padded from 3 to 4: 1 of 1 regions run kernels"
    assert fast.explain(*arrays(4)).reason == "1 of 1 regions run kernels"


def test_gradients_flow_through_the_padding(url: str) -> None:
    fast = bucketed(url)
    fast(*arrays(3))
    found = mx.grad(lambda x, gate: mx.sum(fast(x, gate)), argnums=(0, 1))(*arrays(3))  # type: ignore[arg-type]
    expected = mx.grad(lambda x, gate: mx.sum(gated(x, gate)), argnums=(0, 1))(*arrays(3))
    assert all(mx.allclose(a, b).item() for a, b in zip(found, expected, strict=True))


def test_a_size_without_a_kernel_wants_the_bucket(url: str) -> None:
    fast = bucketed(url)
    for rows in (5, 6, 6, 9):
        assert mx.allclose(fast(*arrays(rows)), gated(*arrays(rows))).item()  # type: ignore[arg-type]
    fast.save_wanted()
    with KernelStore(url) as store:
        wanted = {w.inputs[0]: w.calls for w in store.wanted()}
    assert wanted == {"f32[8,64]": 3, "f32[9,64]": 1}


@pytest.mark.parametrize(
    ("function", "harmless"),
    [
        (lambda x, y: mx.softmax(x, axis=-1) * y, True),
        (lambda x, y: x + mx.sum(y, axis=0), True),
        (lambda x, y: x + mx.mean(y, axis=0), False),
        (lambda x, y: x * mx.max(mx.abs(y), axis=0), True),
        (lambda x, y: x * mx.max(y, axis=0), False),
        (lambda x, y: mx.softmax(x, axis=0) * y, False),
        (lambda x, y: [x, {"total": y.sum()}], True),
        (lambda x, y: mx.argmax(x, axis=-1), True),
    ],
)
def test_whether_padding_is_harmless_is_computed(
    function: Callable[..., object], *, harmless: bool
) -> None:
    positive = [mx.abs(array) for array in arrays(3)]
    assert is_harmless(Buckets((4,), 0, (0, 1)), function, positive) is harmless


def test_a_function_that_padding_changes_runs_as_it_is(url: str) -> None:
    made = optimize(lambda x: mx.exp(x) * mx.mean(x), store=url, device="simulator", buckets=[4])
    assert isinstance(made, Optimized)
    assert "padding to 4 changes what it computes" in made.explain(arrays(3)[0]).reason


@pytest.mark.parametrize(("sizes", "padded"), [([], (0,)), ([0, 4], (0,)), ([4], ())])
def test_buckets_that_mean_nothing_are_one_sentence(
    sizes: list[int], padded: tuple[int, ...]
) -> None:
    with pytest.raises(InputError, match="expected bucket sizes of at least 1"):
        optimize(gated, buckets=sizes, padded=padded)
