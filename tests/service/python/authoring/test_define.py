"""Authored functions: rows, bodies, kernels that are verified first, MLX everywhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import mlx.core as mx
import pytest

import kernelwright as kw
from kernelwright.errors import InputError
from kernelwright.service.python.authoring.authored import AuthoredFunction
from kernelwright.service.python.request import DeviceChoice

EPSILON = 1e-5
Rows = AuthoredFunction[mx.array]


def _softmax(device: DeviceChoice = "auto", store: str | Path | None = None) -> Rows:
    return kw.rowwise(
        map={"m": "x", "s": "exp(x - m)"},
        reduce={"m": "max", "s": "sum"},
        finish="exp(x - m) / s",
        name="rows",
        device=device,
        store=store,
    )


def _x(rows: int = 6) -> mx.array:
    return mx.random.normal((rows, 32), key=mx.random.key(0))


def test_rowwise_reduces_in_order_and_finishes() -> None:
    softmax = _softmax()
    assert mx.allclose(softmax(_x()), mx.softmax(_x(), axis=-1), atol=1e-6)


def test_rowwise_knows_the_length_of_a_row() -> None:
    norm = kw.rowwise(map="x * x", reduce="sum", finish="x * rsqrt(reduced / n + 1e-5) * w")
    w = mx.arange(32.0)
    expected = mx.fast.rms_norm(_x(), w, EPSILON)
    assert norm.meaning.parameters == ("x", "w")
    assert mx.allclose(norm(_x(), w), expected, atol=1e-4)


def test_rowwise_without_finish_returns_a_value_for_each_row() -> None:
    made = kw.rowwise(map="abs(x)", reduce="max")(_x())
    assert mx.array_equal(made, mx.abs(_x()).max(axis=-1))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"map": "x", "reduce": "median"}, "one of sum, mean, max, min, prod, found 'median'"),
        ({"map": {"a": "x"}, "reduce": {"b": "sum"}}, "the same names, found a and b"),
        ({"map": {"a": "x + a"}, "reduce": "sum"}, "found 'a', which is not computed yet"),
        ({"map": "1 + 2", "reduce": "sum"}, "to read an array, found numbers alone"),
        ({"map": "x", "reduce": "sum", "finish": "x / redcued", "names": ["x"]}, "found 'redcued'"),
        ({"map": "x", "reduce": None}, "reduce as a text or a dict of texts, found None"),
        ({"map": 3, "reduce": "sum"}, "map as a text or a dict of texts, found 3"),
        ({"map": {3: "x"}, "reduce": "sum"}, "names for the reductions, found 3"),
        ({"map": "x", "reduce": {"reduced": []}}, "one of sum, mean, max, min, prod, found"),
        ({"map": {"x": "y"}, "reduce": "sum", "names": ["x", "y"]}, "different names, found 'x'"),
    ],
)
def test_rowwise_refuses_what_does_not_fit(parts: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        kw.rowwise(**parts)  # type: ignore[arg-type]


def test_a_body_is_read_with_its_constants_and_defaults() -> None:
    @kw.kernel
    def norm(x: mx.array, w: mx.array, scale: float = 2.0) -> mx.array:
        """Doc."""
        square = mean(x * x)  # type: ignore[name-defined]  # noqa: F821
        square += EPSILON
        return x * rsqrt(square) * w * scale  # type: ignore[name-defined, no-any-return]  # noqa: F821

    w = mx.arange(32.0)
    assert repr(norm).startswith("<norm(x, w, scale)")
    assert mx.allclose(norm(_x(), w), 2 * mx.fast.rms_norm(_x(), w, EPSILON), atol=1e-4)
    assert mx.allclose(norm(_x(), w, scale=1), mx.fast.rms_norm(_x(), w, EPSILON), atol=1e-4)


def test_a_body_may_return_several_results() -> None:
    @kw.kernel
    def both(x: mx.array) -> tuple[mx.array, mx.array]:
        y = x * 2
        return y, y if x > 0 else x

    doubled, kept = both(_x())
    assert mx.array_equal(doubled, _x() * 2)
    assert mx.array_equal(kept, mx.where(_x() > 0, _x() * 2, _x()))


def test_a_body_that_is_no_expression_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"found for in line \d+ of .*test_define.py; write"):

        @kw.kernel
        def looped(x: mx.array) -> mx.array:
            for _ in range(3):
                x = x + 1
            return x

    with pytest.raises(InputError, match="'unknown' in reads to be a parameter"):

        @kw.kernel
        def reads(x: mx.array) -> mx.array:
            return x + unknown  # type: ignore[name-defined, no-any-return]  # noqa: F821


def test_a_name_of_a_body_is_an_array_or_a_function() -> None:
    with pytest.raises(InputError, match="'mean' to name an array or a function, found both"):

        @kw.kernel
        def both(x: mx.array) -> mx.array:
            mean = x * 2
            return mean(x) + mean  # type: ignore[operator, no-any-return]

    with pytest.raises(InputError, match="'exp' to name an array or a function, found both"):

        @kw.kernel
        def later(x: mx.array) -> mx.array:
            y = exp(x)  # type: ignore[has-type, used-before-def]  # noqa: F821
            exp = y * 2
            return exp + y  # type: ignore[no-any-return]


def test_a_reduction_keeps_its_axis_in_a_body_and_drops_it_in_rowwise_without_finish() -> None:
    @kw.kernel
    def total(x: mx.array) -> mx.array:
        return sum(x)  # type: ignore[return-value]

    assert total(_x()).shape == (6, 1)
    assert kw.rowwise(map="x", reduce="sum")(_x()).shape == (6,)


def test_what_has_no_rows_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"found x float32.*a row needs an axis"):
        kw.rowwise(map="x", reduce="sum")(mx.array(3.0))
    with pytest.raises(InputError, match=r"found x float32\[3,0\]"):
        kw.rowwise(map="x", reduce="max")(mx.zeros((3, 0)))


def test_a_function_without_a_source_is_refused_in_a_sentence() -> None:
    space: dict[str, object] = {}
    exec("def typed(x): return x * 2", space)
    with pytest.raises(InputError, match="expected the source of typed, found none"):
        kw.kernel(cast("Callable[..., object]", space["typed"]))


def test_a_function_differentiates_and_maps_as_mlx_does() -> None:
    gate = kw.elementwise("x * sigmoid(x)")
    expected = mx.grad(lambda x: (x * mx.sigmoid(x)).sum())(_x())
    assert mx.allclose(mx.grad(lambda x: gate(x).sum())(_x()), expected, atol=1e-6)
    assert mx.allclose(mx.vmap(gate)(_x()), gate(_x()), atol=1e-6)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    store = tmp_path_factory.mktemp("authored") / "kernels.db"
    function = _softmax("simulator", store)
    function(_x())
    return function


def test_the_first_call_verifies_a_kernel_that_then_serves(
    served: AuthoredFunction[mx.array],
) -> None:
    told = kw.explain(served, _x())
    (region,) = told.regions
    assert told.path == "kernels"
    assert mx.allclose(served(_x()), mx.softmax(_x(), axis=-1), atol=1e-6)
    champion = kw.best(store=served._authoring.url, device="simulator")[0]
    assert champion.id == region.candidate
    assert champion.evaluation is not None
    assert champion.evaluation.has_passed_hidden_gate


def test_other_shapes_and_dtypes_run_mlx(served: Rows) -> None:
    x = _x(3).astype(mx.float16)
    assert kw.explain(served, x).path == "original"
    assert mx.allclose(served(x), mx.softmax(x, axis=-1), atol=1e-3)


def test_a_served_kernel_differentiates_as_mlx_does(served: Rows) -> None:
    weights = mx.arange(32.0)
    expected = mx.grad(lambda x: (mx.softmax(x, axis=-1) * weights).sum())(_x())
    found = mx.grad(lambda x: (served(x) * weights).sum())(_x())
    assert mx.allclose(found, expected, atol=1e-4)


def test_another_process_finds_the_verified_kernel(served: Rows) -> None:
    again = _softmax("simulator", served._authoring.url)
    again._authoring.may_write = False
    assert kw.explain(again, _x()).path == "kernels"


def test_prepare_needs_a_device() -> None:
    function = kw.elementwise("x + 1")
    if function._authoring.device is None:
        with pytest.raises(InputError, match="found no GPU here; make it with device='simulator'"):
            function.prepare("f32[8]")


def test_the_registry_lists_calls_and_times(
    served: AuthoredFunction[mx.array], tmp_path: Path
) -> None:
    doubled = kw.elementwise("x * 2", name="doubled_for_the_registry", store=tmp_path / "no.db")
    doubled(_x())
    with kw.registry.timing():
        doubled(_x())
        doubled(_x(2))
    doubled(_x())
    rows = {row.inputs: row for row in kw.registry if row.function == "doubled_for_the_registry"}
    first, second = rows["f32[6,32]",], rows["f32[2,32]",]
    assert (first.calls, first.timed_calls, second.calls, second.timed_calls) == (3, 1, 1, 1)
    assert first.time_s is not None
    assert first.path == "original"
    served_rows = [row for row in kw.registry if row.function == "rows" and row.kernels]
    assert {row.path for row in served_rows} == {"kernels"}
    assert "doubled_for_the_registry" in repr(kw.registry)
    assert "<table>" in kw.registry._repr_html_()
