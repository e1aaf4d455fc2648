"""An elementwise op takes one record and one spelling in Metal, and goes all the way."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import kernelwright as kw
from kernelwright import ir
from kernelwright.ir import Graph, Op, canonicalize, capture, ops
from kernelwright.ir.trace import primitive
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.family.reducer import REDUCERS
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.lower.term.indexing import INDEXED
from kernelwright.metal.target.msl import spelling
from kernelwright.plan import partition
from kernelwright.runtime.export import export_module
from kernelwright.runtime.export.reference_code import function_source
from kernelwright.store import KernelStore

# The package offers the function of this name.
classify = import_module("kernelwright.metal.family.classify")
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)

NAME = "area_tangent"
TAKEN_OUT = "arctanh"
RECORD = Op(
    NAME,
    ir.Kind.ELEMENTWISE,
    lambda call, x: np.arctanh(x),
    mlx=ops.MlxCall("arctanh"),
    primitive="ArcTanh",
    behaviour=ops.Behaviour(ulps=5.0),
    flops_per_element=8,
)
SPELLING = "metal::precise::atanh({0})"


def widened(x: mx.array, y: mx.array) -> mx.array:
    return mx.softmax(mx.arctanh(0.5 * mx.tanh(x)) * y, axis=-1) * y


def _forget() -> None:
    for cached in (primitive._named, primitive._variants, primitive.translate_bare):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _with_the_op(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(ops._TABLE, NAME, RECORD)
    monkeypatch.delitem(ops._TABLE, TAKEN_OUT)
    monkeypatch.setitem(spelling.SPELLINGS, NAME, SPELLING)
    monkeypatch.delitem(spelling.SPELLINGS, TAKEN_OUT)
    _forget()
    yield
    _forget()


def _as(monkeypatch: pytest.MonkeyPatch, known: str, name: str, **changes: str) -> None:
    """Take an op for a new one, which nobody has heard of by its name."""
    record = replace(ops.op_named(known), name=name, **changes)  # type: ignore[arg-type]
    monkeypatch.setitem(ops._TABLE, name, record)
    monkeypatch.delitem(ops._TABLE, known)
    _forget()


def test_a_reduction_takes_a_line_of_how_results_are_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _as(monkeypatch, "prod", "row_product")
    monkeypatch.setitem(REDUCERS, "row_product", REDUCERS["prod"])
    monkeypatch.delitem(REDUCERS, "prod")
    monkeypatch.setattr(classify, "_ROW_OPS", classify._ROW_OPS | {"row_product"})
    graph = canonicalize(
        capture(lambda x: x / (1 + mx.abs(mx.prod(x, axis=-1, keepdims=True))), mx.zeros((8, 64)))
    )
    assert "row_product" in {node.op for node in graph.nodes}
    assert lower(graph, schedules(graph, DEVICE)[0]).inputs[0].shape == ("rows", 64)
    assert "mx.prod(" in function_source(graph, "reference", "Divide.")


def test_a_gather_takes_a_function_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    _as(monkeypatch, "gather_axis", "pick_along", primitive="GatherAxis")
    monkeypatch.setitem(INDEXED, "pick_along", INDEXED["gather_axis"])
    monkeypatch.delitem(INDEXED, "gather_axis")
    monkeypatch.setattr(classify, "_FUSED_INDEXING", classify._FUSED_INDEXING | {"pick_along"})
    graph = canonicalize(
        capture(
            lambda x, i: mx.exp(mx.take_along_axis(x, i, axis=1)),
            mx.zeros((8, 64)),
            mx.zeros((8, 16), mx.int32),
        )
    )
    (region,) = partition(graph)
    assert {node.op for node in region.extract().nodes} == {"pick_along", "exp"}
    assert lower(graph, schedules(graph, DEVICE)[0]).outputs[0].shape[-1] == 16
    source = function_source(graph, "reference", "Take.")
    assert "mx.exp(mx.take_along_axis(x, i, axis=1))" in source


def _graph() -> Graph:
    x = mx.zeros((8, 64))
    with mx.stream(mx.cpu):
        return canonicalize(capture(widened, x, x))


def test_it_is_captured_replayed_and_computed_by_the_oracle() -> None:
    graph = _graph()
    assert NAME in {node.op for node in graph.nodes}
    x, y = (np.linspace(-2, 2, 512).reshape(8, 64) for _ in range(2))
    (replayed,) = ir.interpret(graph, mx.array(x, mx.float32), mx.array(y, mx.float32))
    assert mx.allclose(replayed, widened(mx.array(x, mx.float32), mx.array(y, mx.float32)))
    (ideal,) = ir.reference(graph, [x, y])
    powers = np.exp(np.arctanh(0.5 * np.tanh(x)) * y)
    assert np.allclose(ideal, powers / powers.sum(axis=-1, keepdims=True) * y, rtol=1e-12)


def test_it_is_searched_on_the_simulator_and_exported(tmp_path: Path) -> None:
    store = tmp_path / "kernels.db"
    found = kw.search(
        widened,
        inputs=["f32[8,64]", "f32[8,64]"],
        device="simulator",
        candidates=1,
        store=store,
        progress=False,
    )
    assert [row.kind for row in found.table] == ["predicted"], [
        (entry.status, entry.summary) for entry in found.history
    ]
    with KernelStore(str(store)) as opened:
        module = export_module(opened.show(found.champion.id), name="widened")
    text = module.files[0].text
    assert "metal::precise::atanh" in text
    assert "mx.arctanh(" in text
    assert f"mx.{NAME}" not in text
