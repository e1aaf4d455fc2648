"""The simulator on an arm64 processor, where `qemu-aarch64` can stand for one."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device.simulator import build_command
from kernelwright.metal.device.simulator.toolchain import (
    DIAGNOSTIC_FLAGS,
    INCLUDE,
    LANGUAGE_FLAGS,
    VARIANT_FLAGS,
    WIDENED_FLAGS,
    Variant,
    compiler_path,
    target_flags,
)
from kernelwright.metal.device.simulator.unit import Section, prepare
from kernelwright.metal.device.simulator.wide.widen import widen

_HERE = Path(__file__).parent
_RUNTIME = INCLUDE.parent / "runtime"
_TARGET = target_flags("aarch64", "linux")
_EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
_ARGUMENTS = """(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    constant uint& n [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
    uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint s [[simdgroup_index_in_threadgroup]])"""
_TEXT = f"""#include <metal_stdlib>
using namespace metal;
kernel void softmax{_ARGUMENTS} {{
  threadgroup float shared[8];
  float v[4], high = -INFINITY, sum = 0;
  for (uint k = 0; k < 4; k++) high = max(high, v[k] = x[row * n + k * 256 + l]);
  high = simd_max(high);
  if (lane == 0) shared[s] = high;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < 8; k++) high = max(high, shared[k]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < 4; k++) sum += v[k] = exp(v[k] - high);
  sum = simd_sum(sum);
  if (lane == 0) shared[s] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0;
  for (uint k = 0; k < 8; k++) sum += shared[k];
  for (uint k = 0; k < 4; k++) y[row * n + k * 256 + l] = v[k] / sum;
}}
kernel void race{_ARGUMENTS} {{
  threadgroup float shared[256];
  shared[l] = x[i];
  y[i] = shared[255 - l];
}}
kernel void wild{_ARGUMENTS} {{ y[i] = simd_sum(x[i]) + x[n * 100000000ul]; }}
kernel void endless{_ARGUMENTS} {{
  while (x[0] < 100) threadgroup_barrier(mem_flags::mem_none);
}}
"""


def _zig(*arguments: str | Path) -> None:
    done = subprocess.run([compiler_path(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _kernel(variant: Variant, folder: Path) -> Path:
    """Compile the text for arm64 as the simulator compiles it for this machine."""
    unit = prepare([Section("source", _TEXT)], prelude="metal")
    source, listing = folder / f"{variant}.cpp", folder / f"{variant}.ll"
    source.write_text(unit.text({}, rows=False))
    flags = (*LANGUAGE_FLAGS, *_TARGET, *VARIANT_FLAGS[variant], *DIAGNOSTIC_FLAGS)
    command = ("clang", "-x", "c++", *flags, "-include", str(INCLUDE / "kw" / "prelude.h"))
    built = folder / f"{variant}.o"
    if variant == "vet":
        assert build_command.compile_vetting(command, source, built) == (0, "")
        return built
    if variant != "wide":
        _zig(*command, "-c", source, "-o", built)
        return built
    _zig(*command, "-S", "-emit-llvm", source, "-o", listing)
    listing.write_text(widen(listing.read_text()))
    _zig("clang", "-x", "ir", *_TARGET, *WIDENED_FLAGS, "-c", listing, "-o", built)
    return built


def _programs(folder: Path) -> tuple[Path, Path]:
    """Link the kernels with the runtime and a C library that needs nothing of the system."""
    target = ("-target", "aarch64-linux-musl", "-O2", "-fno-sanitize=undefined", "-D_GNU_SOURCE")
    flags = (*target, "-std=c++20", "-fno-exceptions", "-fno-rtti", f"-I{INCLUDE}", f"-I{_RUNTIME}")
    sources = [*sorted(_RUNTIME.glob("*.cpp")), _RUNTIME / "switch.S"]

    def compiled(source: Path) -> Path:
        built = folder / f"{source.name}.o"
        _zig("c++", *flags, "-c", source, "-o", built)
        return built

    with ThreadPoolExecutor() as pool:
        runtime = list(pool.map(compiled, sources))
    programs = (folder / "plain", folder / "sanitizing")
    main: tuple[str | Path, ...] = (*flags, "-static", _HERE / "elsewhere.cpp", *runtime)
    plain = (_kernel("plain", folder), _kernel("wide", folder), _kernel("vet", folder))
    _zig("c++", *main, *plain, "-o", programs[0])
    _zig("c++", "-DKW_SANITIZE", *main, _kernel("sanitize", folder), "-o", programs[1])
    return programs


@pytest.mark.slow
@pytest.mark.skipif(_EMULATOR is None, reason="qemu-aarch64 is not installed")
def test_an_arm64_processor_computes_watches_and_stops_as_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_command, "target_flags", lambda: _TARGET)
    plain, sanitizing = _programs(tmp_path)

    def run(program: Path, *names: str) -> tuple[list[str], list[NDArray[np.float32]]]:
        paths = [tmp_path / name for name in names]
        done = subprocess.run(
            [str(_EMULATOR), program, *paths], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), [np.fromfile(p, np.float32) for p in paths]

    said, (fibers, wide, vetted) = run(plain, "fibers", "wide", "vetted")
    watched, (instrumented,) = run(sanitizing, "sanitized")

    x = (np.arange(16 * 1024, dtype=np.int64) * 7919 % 1000).astype(np.float32) / 250 - 2
    e = np.exp(x.astype(np.float64).reshape(16, 1024))
    np.testing.assert_allclose(fibers.reshape(16, 1024), e / e.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(fibers.view(np.uint32), wide.view(np.uint32))
    np.testing.assert_array_equal(fibers.view(np.uint32), vetted.view(np.uint32))
    np.testing.assert_array_equal(fibers.view(np.uint32), instrumented.view(np.uint32))
    # The kernel, `Failure` of launch.h and `Kind` of report.h: -1 for none.
    assert said == [
        *("softmax 0 -1", "wide 0 -1", "vetted 0 -1", "suspicious 8 -1"),
        *("race 0 -1", "wild 3 -1", "endless 1 -1", "softmax 0 -1"),
    ]
    assert watched == [*("softmax 0 -1", "race 0 5", "wild 3 0", "endless 1 -1", "softmax 0 -1")]
