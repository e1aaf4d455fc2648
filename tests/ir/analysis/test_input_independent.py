"""What hangs on no input is known beforehand."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.ir import Constant, canonicalize, capture
from kernelwright.ir.analysis.input_independent import Known


def test_what_reads_no_input_has_its_value() -> None:
    graph = canonicalize(capture(lambda x: x * (mx.arange(4) + 1), mx.zeros((2, 4))))
    known = Known(graph)
    (product,) = (node for node in graph.nodes if node.op == "multiply")
    (counted,) = (v for v in product.inputs if known.has(v))
    assert np.array_equal(known.value(counted), np.tile([1.0, 2.0, 3.0, 4.0], (2, 1)))
    assert not known.has(product.outputs[0])
    assert not any(known.has(v) for v in graph.inputs)


def test_weights_that_a_value_does_not_hang_on_are_not_converted() -> None:
    weight = mx.ones((64, 64), mx.float16)
    graph = canonicalize(
        capture(lambda x: (x @ weight) * (mx.arange(64) + 1), mx.zeros((2, 64), mx.float16))
    )
    (product,) = (node for node in graph.nodes if node.op == "multiply")
    known = Known(graph)
    (counted,) = (v for v in product.inputs if known.has(v))
    unreadable = tuple(
        (v, held if held.type.size == 1 else _Unreadable(held.type, b""))
        for v, held in graph.constants
    )
    assert any(isinstance(held, _Unreadable) for _, held in unreadable)
    beside = Known(replace(graph, constants=unreadable))
    assert np.array_equal(beside.value(counted), known.value(counted))


class _Unreadable(Constant):
    @property
    def array(self) -> NDArray[np.generic]:
        raise AssertionError("nothing hangs on it")
