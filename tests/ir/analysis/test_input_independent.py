"""What hangs on no input is known beforehand."""

import mlx.core as mx
import numpy as np

from kernelwright.ir import canonicalize, capture
from kernelwright.ir.analysis.input_independent import Known


def test_what_reads_no_input_has_its_value() -> None:
    graph = canonicalize(capture(lambda x: x * (mx.arange(4) + 1), mx.zeros((2, 4))))
    known = Known(graph)
    (product,) = (node for node in graph.nodes if node.op == "multiply")
    (counted,) = (v for v in product.inputs if known.has(v))
    assert np.array_equal(known.value(counted), np.tile([1.0, 2.0, 3.0, 4.0], (2, 1)))
    assert not known.has(product.outputs[0])
    assert not any(known.has(v) for v in graph.inputs)
