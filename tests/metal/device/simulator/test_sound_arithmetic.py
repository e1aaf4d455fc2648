"""Integer arithmetic without a value of its own gives the same in every build, and stores it."""

from typing import get_args

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.sound_arithmetic import may_lack_value
from kernelwright.metal.device.simulator.toolchain import Variant

_LEAST = -(2**31)
_CASES = {
    "a / b": 0,
    "a % b": 0,
    "a / b * 1000 + a % b": 0,
    "short(a) % short(b)": 0,
    "int(uint(a) / uint(b))": 0,
    "(int2(a, 9) % int2(b, 5)).y": 4,
    "a / three": 0,
    "a % three": 0,
    "b == 0 ? a / b : 5": 0,
    "(a / b, b == 0 ? 5 : 6)": 5,
    "a / (flag ? b + 2 : 0)": 0,
    "INT_MIN / -1": 0,
    "INT_MIN % -1": 0,
    "least / minus": 0,
    "least % minus": 0,
    "low / (b - 1)": 0,
    "low % (b - 1)": 0,
    "1 << 40": 256,
    "a << 33": 14,
    "1 << forty": 256,
    "-8 >> forty + 1": -1,
    "a << (b - 31)": 14,
    "int(1ul << (b + 64))": 1,
}
_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_LOCALS = """
  int three = 3, least = INT_MIN, minus = -1, forty = 40;
  for (int j = 0; j < 3; j++) three--;
  int a = in[0], b = in[1], low = in[2]; bool flag = in[3];
"""


def _text(wait: str) -> str:
    stores = "".join(f"  o[i * {len(_CASES)} + {n}] = {case};\n" for n, case in enumerate(_CASES))
    signature = "kernel void k(device const int* in, device int* o,\n"
    return f"{_HEAD}{signature}  uint i [[thread_position_in_grid]]) {{{_LOCALS}{wait}{stores}}}\n"


@pytest.mark.parametrize("wait", ["", "threadgroup_barrier(mem_flags::mem_none);\n"])
@pytest.mark.parametrize("build", get_args(Variant))
def test_every_build_gives_the_same(
    build: Variant, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if build in ("wide", "vet"):
        monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
        monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    started: dict[str, Variant] = {"wide": "plain", "vet": "sanitize"}
    variant = started.get(build, build)
    o = np.full((64, len(_CASES)), 77, np.int32)
    library = simulator.compile(_text(wait))
    if build in ("branches", "metered"):
        # Launches take it for the plain build.
        library._images["plain", ()] = library.image(build)
    library.kernel("k").launch(
        [np.array([7, 0, _LEAST, 0], np.int32), o],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        sanitize=variant == "sanitize",
        count=variant == "count",
    )
    assert dict(zip(_CASES, o[0].tolist(), strict=True)) == _CASES
    assert (o == o[0]).all()


def test_what_keeps_a_division_whole_is_not_counted() -> None:
    def operations(divisor: str) -> float:
        text = f"{_HEAD}kernel void k(device int* o, constant int& n,\n"
        text += f"  uint i [[thread_position_in_grid]]) {{ o[i] = o[i] / {divisor}; }}\n"
        outcome = (
            simulator.compile(text)
            .kernel("k")
            .launch(
                [np.zeros(64, np.int32), np.int32(5)],
                grid=(64, 1, 1),
                threadgroup=(32, 1, 1),
                count=True,
            )
        )
        assert outcome.counters is not None
        return outcome.counters.integer_operations

    assert operations("n") == operations("3")


@pytest.mark.parametrize(
    "text",
    [
        "x * 2.0f / 3.0f",
        "i / 4",
        "1 << 3",
        "x >> 16",
        "vec<vec<float, 2>, 2>",
        "// a",
        "a /* b */",
        "i % 32u",
        "x %= 7",
        "1.0f / x",
        ".5h / x",
        "x / (1.0f + exp(-x))",
        "x / float(n)",
        "x /= (float)n",
    ],
)
def test_what_has_a_value_takes_no_other_way(text: str) -> None:
    assert not may_lack_value(text)


@pytest.mark.parametrize(
    "text",
    ["i / n", "i % n", "i % 0", "i / (n + 1)", "i / (1.0f < x)", "i / (1.0f + x < y)", "1 / i"],
)
def test_what_may_lack_a_value_is_looked_at(text: str) -> None:
    assert may_lack_value(text)
