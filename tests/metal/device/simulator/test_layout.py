"""Python and the runtime agree where fields lie, or the runtime does not build."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator.build import _compile, _headers
from kernelwright.metal.device.simulator.layout import layout_text
from kernelwright.metal.device.simulator.toolchain import target_flags


class _Shifted(ctypes.Structure):
    """`BlockTally` with its fields exchanged."""

    _fields_ = (("issued", ctypes.c_uint64), ("lanes", ctypes.c_uint64))


def _built(text: str, folder: Path, machine: str, system: str) -> None:
    source = folder / "layout.cpp"
    source.write_text(text)
    headers = (f for p in _headers(machine, system) for f in ("-isystem", str(p)))
    _compile(source, (*target_flags(machine, system), *headers), folder)


@pytest.mark.parametrize(
    ("machine", "system"), [("x86_64", "linux"), ("aarch64", "linux"), ("arm64", "darwin")]
)
def test_both_sides_declare_the_same(machine: str, system: str, tmp_path: Path) -> None:
    _built(layout_text(), tmp_path, machine, system)


def test_a_field_that_has_moved_stops_the_build(tmp_path: Path) -> None:
    text = layout_text({"kw::BlockTally": _Shifted})
    with pytest.raises(DeviceError, match=r"Python takes offsetof\(kw::BlockTally, issued\) for 0"):
        _built(text, tmp_path, "x86_64", "linux")


def test_counters_that_cannot_be_read_are_no_zeros() -> None:
    text = """#include <metal_stdlib>
        kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
        y[i] = 3.125f * i; }"""
    library = simulator.compile(text, variant="count")
    listing = library.image("count").path.with_suffix(".so.ll")
    kept = listing.read_text()
    listing.unlink()
    try:
        with pytest.raises(DeviceError, match="cannot be read: expected the operations of its"):
            library.kernel("k").launch(
                [np.zeros(8, np.float32)], grid=(8, 1, 1), threadgroup=(8, 1, 1), count=True
            )
    finally:
        listing.write_text(kept)
