"""Metal in the styles of other people's shaders compiles, and runs without a report."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.msl.signature import Parameter

_TEXTS = sorted((Path(__file__).parent / "foreign").glob("*.metal"))
_ELEMENTS = 8192
_TYPES = {
    "float": np.float32, "half": np.float16, "uint": np.uint32, "int": np.int32,
    "int64_t": np.int64, "uchar": np.uint8, "char": np.int8, "ushort": np.uint16,
}  # fmt: skip


def _array(parameter: Parameter) -> Array:
    """Return zeros for a parameter, of its type where that is a number's, else bytes."""
    dtype = _TYPES.get(parameter.type)
    if dtype is None:
        return np.zeros(16 * _ELEMENTS, np.uint8)
    return np.zeros(1 if parameter.is_reference else 4 * _ELEMENTS, dtype)


@pytest.mark.parametrize("path", _TEXTS, ids=lambda p: p.stem)
@pytest.mark.sampled(16)
def test_a_foreign_text_runs_clean(path: Path) -> None:
    library = simulator.compile(path.read_text())
    assert library.kernels
    for name in library.kernels:
        numbers: dict[int | str, bool | int | float] = {
            c.index: 0 for c in library.unit.constants if c.type in (*_TYPES, "bool")
        }
        kernel = library.kernel(name, numbers)
        entry = kernel.entry()
        outcome = kernel.launch(
            {p.name: _array(p) for p in entry.buffers},
            grid=(32, 1, 1),
            threadgroup=(32, 1, 1),
            threadgroup_bytes={p.name: 512 for p in entry.threadgroups},
            sanitize=True,
        )
        assert outcome.reports == ()
