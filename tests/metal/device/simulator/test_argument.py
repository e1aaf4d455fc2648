"""Every argument of the simulator's public functions: what does not fit is one sentence."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.metal import LaunchError, simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import SimulatedKernel

_TEXT = """#include <metal_stdlib>
using namespace metal;
constant int scale [[function_constant(0)]];
kernel void k(device const float* x [[buffer(0)]], constant float* z [[buffer(1)]],
              device float* y [[buffer(2)]], device float* w [[buffer(3)]],
              threadgroup float* t [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  t[i] = x[i] + z[i];
  y[i] = t[i];
  w[i] = 2 * t[i];
}
"""
_NO_TEXTS: tuple[object, ...] = (None, 1, 1.5, b"x", ["a"], {"a": 1}, np.zeros(3), object())
_NO_NUMBERS: tuple[object, ...] = (
    None,
    1.5,
    float("nan"),
    "1",
    "",
    [],
    {},
    True,
    np.zeros(3),
    np.float32(3),
    b"1",
)


@pytest.fixture(scope="module")
def kernel() -> SimulatedKernel:
    return simulator.compile(_TEXT).kernel("k")


def _launched(kernel: SimulatedKernel, **changed: object) -> Array:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    given = {
        "buffers": {"x": x, "z": x, "y": y, "w": y.copy()},
        "grid": (8, 1, 1),
        "threadgroup": (8, 1, 1),
        "threadgroup_bytes": {"t": 32},
    }
    kernel.launch(**(given | changed))  # type: ignore[arg-type]
    return y


@pytest.mark.parametrize(
    ("argument", "values", "expected"),
    [
        ("source", _NO_TEXTS, "expected source of compile to be a text"),
        ("header", _NO_TEXTS, "expected header of compile to be a text"),
        ("prelude", ("abc", 1, [], np.zeros(3)), "expected prelude of compile to be 'metal' or"),
        ("folders", (None, "abc", 3, [3], {"a": 1}), "expected folders of compile to be a list"),
        ("math_mode", ("", None, "quick", []), "expected math_mode of compile to be"),
        ("language", ("abc", "", 3.2, "5.0", None), "expected language of compile to be '3.1' or"),
        ("fast_error", ("wors", None, True), "expected fast_error of compile to be 'usual' or"),
        ("variant", ("abc", None, {}), "expected variant of compile to be"),
    ],
)
def test_compile_names_the_argument_that_is_wrong(
    argument: str, values: tuple[object, ...], expected: str
) -> None:
    for value in values:
        given = {"source": _TEXT, argument: value}
        with pytest.raises(InputError, match=expected):
            simulator.compile(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["source", "header"])
def test_half_a_character_is_refused_with_its_line(argument: str) -> None:
    given = {"source": _TEXT, argument: "// one\n// \ud800\n"}
    with pytest.raises(InputError, match=rf"{argument} has no character at line 2 but half"):
        simulator.compile(**given)  # type: ignore[arg-type]


def test_folders_may_be_texts(tmp_path: Path) -> None:
    (tmp_path / "two.h").write_text("constant int two = 2;\n")
    text = '#include "two.h"\nkernel void k(device int* y [[buffer(0)]]) { y[0] = two; }\n'
    assert simulator.compile(text, folders=[str(tmp_path)]).kernels == ("k",)


@pytest.mark.parametrize(
    ("argument", "values", "expected"),
    [
        ("buffers", (None, 3, "ab", b"ab", np.zeros(4)), "k: buffers is expected to be a list"),
        ("order_seed", (*_NO_NUMBERS, -1, 1 << 64), "k: order_seed is expected to be a whole"),
        ("timeout_s", (None, "1", float("nan"), float("inf"), 0, -1, True, 1 << 80, []),
         "k: timeout_s is expected to be a number of seconds above 0"),
        ("sanitize", (None, 1, "yes", [], np.zeros(3)), "k: sanitize is expected to be True or"),
        ("count", (None, 1, "yes", [], np.zeros(3)), "k: count is expected to be True or"),
        ("fresh", (None, 3, "y", b"y", {"y": 1}), "k: fresh is expected to be a list of buffers"),
        ("threadgroup_bytes", (3, "t", [32]), "k: threadgroup_bytes is expected to be a dict"),
    ],
)  # fmt: skip
def test_a_launch_names_the_argument_that_is_wrong(
    kernel: SimulatedKernel, argument: str, values: tuple[object, ...], expected: str
) -> None:
    for value in values:
        with pytest.raises(LaunchError, match=expected):
            _launched(kernel, **{argument: value})


@pytest.mark.parametrize("value", [*_NO_NUMBERS, 0, -4, 1 << 70])
def test_a_size_of_threadgroup_memory_is_a_whole_number(
    kernel: SimulatedKernel, value: object
) -> None:
    with pytest.raises(LaunchError, match="k: threadgroup_bytes of t is expected to be a whole"):
        _launched(kernel, threadgroup_bytes={"t": value})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"fresh": ["Y"]}, r"no buffer 'Y', which fresh names; its buffers are: x \(0\), z \(1\)"),
        ({"fresh": [7]}, "k has no buffer 7, which fresh names"),
        ({"fresh": [None]}, "k has no buffer None, which fresh names"),
        ({"fresh": ["y", "y"]}, "k: fresh names y twice; name it once"),
        ({"fresh": ["x"]}, "k: fresh is expected to name outputs, and x is an input"),
        ({"threadgroup_bytes": {"t": 32, "s": 4}}, r"no threadgroup argument 's'.* are: t \(0\)"),
        ({"threadgroup_bytes": {0: 32, "t": 32}}, "threadgroup_bytes has t twice"),
    ],
)
def test_an_unknown_name_is_refused(
    kernel: SimulatedKernel, changed: dict[str, object], expected: str
) -> None:
    with pytest.raises(LaunchError, match=expected):
        _launched(kernel, **changed)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "the kernel writes y, so it is expected to be an array"),
        (b"abcd", "the kernel writes y, so it is expected to be an array"),
        (None, "y is expected to be an array, a number or bytes, found None"),
        ([1.0, 2.0], "y is expected to be an array, a number or bytes"),
        (np.zeros(8, object), "points to float|holds Python objects"),
    ],
)
def test_an_output_is_an_array(kernel: SimulatedKernel, value: object, expected: str) -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(LaunchError, match=expected):
        _launched(kernel, buffers=[x, x, value, x.copy()])


@pytest.mark.parametrize("sanitize", [False, True])
def test_one_array_may_be_several_inputs(kernel: SimulatedKernel, sanitize: bool) -> None:
    assert _launched(kernel, sanitize=sanitize).tolist() == list(range(0, 16, 2))


def test_an_output_has_memory_of_its_own(kernel: SimulatedKernel) -> None:
    x, y, wide = np.zeros(8, np.float32), np.zeros(8, np.float32), np.zeros(12, np.float32)
    shared = {"x": (x, x.copy(), x, y), "w": (x, x, y, y), "z": (x, wide[:8], wide[4:], y)}
    for other, buffers in shared.items():
        first = "y" if other != "w" else "w"
        named = other if other != "w" else "y"
        with pytest.raises(LaunchError, match=rf"writes {first}, .* memory with that of {named};"):
            _launched(kernel, buffers=list(buffers))
    _launched(kernel, buffers=[x, x, wide[:4].repeat(2), wide[4:]])


@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        (3, "constants is expected to be a dict of values by name or index"),
        (["scale"], "constants is expected to be a dict"),
        ({True: 1}, r"no function constant True; the constants are: scale \(0\)"),
        ({0: 1, "scale": 2}, "constants has scale twice"),
        ({"scale": [1]}, r"scale is a int, which does not hold \[1\]"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants: object, expected: str) -> None:
    library = simulator.compile(_TEXT)
    with pytest.raises(LaunchError, match=expected):
        library.kernel("k", constants)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", _NO_TEXTS)
def test_a_kernels_name_is_a_text(name: object) -> None:
    with pytest.raises(InputError, match="expected name of kernel to be a text"):
        simulator.compile(_TEXT).kernel(name)  # type: ignore[arg-type]
