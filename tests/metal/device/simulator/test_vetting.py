"""Vetting calls nothing clean that the sanitizer would report, and changes no result."""

import random
from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import (
    Library,
    build_command,
    compiler,
    dispatch,
    toolchain,
)
from kernelwright.metal.device.simulator.library import SimulatedKernel
from kernelwright.metal.device.simulator.record import Outcome
from kernelwright.metal.device.simulator.unit import Section, prepare
from kernelwright.metal.diagnostic import ReportKind

_HEAD = """#include <metal_stdlib>
using namespace metal;
float total(thread float* p, uint i) {
  float t = 0;
  for (uint k = 0; k < 4; k++) t += p[k] * float(i);
  return t;
}
void add(device float* p, uint i, float v) { p[i] = p[i] + v; }
"""
_SIGNATURE = """
kernel void {name}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   device float* z [[buffer(2)]], constant uint* n [[buffer(3)]],
                   uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]],
                   uint group [[threadgroup_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]]) {{
  threadgroup float s[64]; threadgroup half h[64];
  float v = 1, a[4] = {{x[i], 2, 3, 4}};
"""
_PLACES = ("l", "i ^ 1", "l ^ 1", "63 - l", "i / 2", "127 - i", "group * 64 + (l ^ 5)", "i + 1")
_CONDITIONS = ("l < 40", "lane == 0", "i < 100", "l % 3 == 1", "x[i] > 0.5f", "group == 1", "l < 1")
_ODDITIES = (
    "threadgroup_barrier(mem_flags::mem_none);",
    "v += float(7 / int(n[1]));",
    "v += float(1u << (l % n[0]));",
    "v += ((const device float4*)x)[i / 4].y;",
    "((device half*)z)[i] = half(v);",
    "v += total(a, i);",
    "add(z, i, v);",
    "v = simd_sum(v);",
    "v = simd_shuffle_xor(v, 1);",
)


class _Author:
    """Writes kernels at random, most of them nearly right."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def kernel(self, name: str) -> str:
        start = "s[l] = x[i]; h[l] = half(x[i]); " + _SYNC if self._random.random() < 0.7 else ""
        body = "\n  ".join(self._statement(0) for _ in range(self._random.randint(1, 5)))
        return f"{_SIGNATURE.format(name=name)}  {start}\n  {body}\n  y[i] = v;\n}}\n"

    def _place(self, usual: str) -> str:
        is_usual = self._random.random() < 0.85
        return usual if is_usual else self._random.choice(_PLACES)

    def _value(self) -> str:
        i, k = self._place("i"), self._place("l")
        return self._random.choice(
            (f"x[{i}]", f"s[{k}]", f"h[{k}]", f"y[{i}]", f"z[{i}]", "v", "a[l % 4]", "float(l)")
        )

    def _statement(self, depth: int) -> str:
        choice = self._random.random()
        if choice < 0.55:
            i, k = self._place("i"), self._place("l")
            place = self._random.choice((f"y[{i}]", f"z[{i}]", f"s[{k}]", "v", "a[l % 4]"))
            return f"{place} = {self._value()} + {self._value()};"
        if choice < 0.7:
            return _SYNC
        if choice < 0.8 or depth == 2:
            return self._random.choice(_ODDITIES)
        inner = " ".join(self._statement(depth + 1) for _ in range(2))
        if choice < 0.95:
            return f"if ({self._random.choice(_CONDITIONS)}) {{ {inner} }}"
        return f"for (uint k = 0; k < n[1]; k++) {{ {inner} }}"


_SYNC = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def _arrays() -> dict[int | str, Array]:
    x = np.random.default_rng(0).random(128).astype(np.float32)
    z = np.arange(128, dtype=np.float32)
    return {
        "x": x,
        "y": np.full(128, np.nan, np.float32),
        "z": z,
        "n": np.array([32, 1], np.uint32),
    }


def _launch(kernel: SimulatedKernel, arrays: dict[int | str, Array]) -> Outcome:
    return kernel.launch(
        dict(arrays), grid=(128, 1, 1), threadgroup=(64, 1, 1), fresh=["y"], sanitize=True
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(1)
def test_what_is_vetted_gives_the_sanitizer_nothing_to_report(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    author, names = _Author(seed), [f"k{k}" for k in range(24)]
    library = simulator.compile(_HEAD + "".join(map(author.kernel, names)), variant="sanitize")
    monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", len(names))
    # On one core threadgroups that race do so in the same order both times.
    monkeypatch.setattr(dispatch, "core_count", lambda: 1)
    clean = 0
    for name in names:
        kernel, vetted, sanitized = library.kernel(name), _arrays(), _arrays()
        expected = _launch(kernel, sanitized)
        with monkeypatch.context() as forced:
            forced.setattr(compiler, "VETTED_THREADS", 1)
            found = _launch(kernel, vetted)
        assert {r.kind for r in found.reports} == {r.kind for r in expected.reports}
        if not expected.reports:
            np.testing.assert_array_equal(vetted["y"], sanitized["y"])
            np.testing.assert_array_equal(vetted["z"], sanitized["z"])
        clean += found.vetted
    assert 2 <= clean < len(names)


def _compile(body: str) -> Library:
    return simulator.compile(f"{_HEAD}{_SIGNATURE.format(name='k')} {body} }}\n")


def test_a_launch_is_vetted_by_its_threads() -> None:
    library = _compile("y[i % 128] = x[i % 128];")
    x, n = np.zeros(128, np.float32), np.zeros(2, np.uint32)

    def launch(threads: int, order_seed: int = 0) -> None:
        library.kernel("k").launch(
            [x, x.copy(), x.copy(), n],
            grid=(threads, 1, 1),
            threadgroup=(128, 1, 1),
            sanitize=True,
            order_seed=order_seed,
        )

    launch(compiler.VETTED_THREADS - 128)
    launch(compiler.VETTED_THREADS * 4, order_seed=1)
    assert ("vet", ()) not in library._images

    launch(compiler.VETTED_THREADS * 4)

    assert ("vet", ()) in library._images


def test_what_is_suspicious_leaves_the_buffers_to_the_sanitizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = _compile("z[i] += 1; y[i] = x[(i * 3) % 128]; if (l == 9) y[i ^ 1] = 5;").kernel("k")
    monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    arrays = _arrays()

    outcome = _launch(kernel, arrays)

    assert not outcome.vetted
    assert len(outcome.reports) == 1
    np.testing.assert_array_equal(arrays["z"], np.arange(128) + 1)


_ODD_ONE_OUT = {
    ReportKind.DEVICE_RACE: "y[i == n[0] ? n[1] : i] = x[i]; if (i == n[0]) y[i] = x[i];",
    ReportKind.DEVICE_OUT_OF_BOUNDS: "y[i] = x[i == n[0] ? n[1] + (1 << 16) : i];",
    ReportKind.UNWRITTEN_OUTPUT: "if (i != n[0]) y[i] = x[i];",
    ReportKind.UNINITIALISED_OUTPUT_READ: "v = i == n[0] ? y[i] : 0; y[i] = x[i] + v;",
    ReportKind.THREADGROUP_RACE: (
        f"s[l] = x[i]; if (i == n[0]) s[l ^ 37] = 3; {_SYNC} y[i] = s[l ^ 1];"
    ),
    ReportKind.DIVERGENT_BARRIER: f"y[i] = lane; if (i != n[0]) {_SYNC}",
    ReportKind.DIVISION_BY_ZERO: "y[i] = 7 / (int(n[0]) - int(i));",
}


@pytest.mark.parametrize("kind", _ODD_ONE_OUT)
def test_one_thread_of_many_is_enough(kind: ReportKind, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _compile(_ODD_ONE_OUT[kind]).kernel("k")
    monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    x = np.random.default_rng(1).random(1 << 16).astype(np.float32)
    y, z, n = np.full_like(x, np.nan), np.zeros_like(x), np.array([40007, 9], np.uint32)

    outcome = kernel.launch(
        [x, y, z, n], grid=(x.size, 1, 1), threadgroup=(64, 1, 1), fresh=["y"], sanitize=True
    )

    assert kind in {r.kind for r in outcome.reports}


@pytest.mark.parametrize(
    ("body", "is_vetted"),
    [
        ("y[i] = x[i];", True),
        ("y[i] = (l < 64 ? x : z)[i];", False),
        ("y[i] = x[i]; y[i + 1000000000] = 1;", False),
        ("z[i] = z[i] * 2; y[i] = z[i];", True),
        ("const device float4* w = (const device float4*)x; y[i] = w[i / 4][i % 4];", True),
        ("s[l] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[l ^ 1];", False),
        ("s[l] = x[i]; " + _SYNC + " y[i] = s[l ^ 1] + s[7];", True),
        ("v = simd_sum(x[i]); if (lane == 0) s[l / 32] = v; " + _SYNC + " y[i] = s[1];", True),
    ],
)
def test_what_can_be_vetted_is(body: str, is_vetted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "VETTED_THREADS", 1)

    assert _launch(_compile(body).kernel("k"), _arrays()).vetted == is_vetted


def test_inputs_may_lie_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _compile("y[i] = x[i] + float(n[1]);").kernel("k")
    monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    arrays = _arrays()
    arrays["x"] = np.arange(129, dtype=np.float32)[1:]

    assert _launch(kernel, arrays).vetted

    np.testing.assert_array_equal(arrays["y"], np.arange(128) + 2)


@pytest.mark.parametrize(("machine", "system"), [("aarch64", "linux"), ("arm64", "darwin")])
def test_kernels_are_vetted_on_other_machines_too(
    machine: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "s[l] = simd_sum(x[i]); " + _SYNC + " y[i] = s[l ^ 1] + a[l % 4] + total(a, 7 / i); }"
    text = f"{_HEAD}{_SIGNATURE.format(name='k')} {body}"
    source, built = tmp_path / "k.cpp", tmp_path / "k.o"
    source.write_text(prepare([Section("source", text)], prelude="metal").text({}, rows=False))
    target = toolchain.target_flags(machine, system)
    monkeypatch.setattr(build_command, "target_flags", lambda: target)
    flags = (*toolchain.LANGUAGE_FLAGS, *target, *toolchain.VARIANT_FLAGS["vet"])
    prelude = str(toolchain.INCLUDE / "kw" / "prelude.h")
    command = ["clang", "-x", "c++", *flags, *toolchain.DIAGNOSTIC_FLAGS, "-include", prelude]

    assert build_command.compile_vetting(command, source, built) == (0, "")

    assert b"kw_vet:k:k" in built.read_bytes()
