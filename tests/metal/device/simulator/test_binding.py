"""Sizes, arrays, numbers and function constants that do not fit a kernel are one sentence."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from kernelwright.metal import LaunchError, simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.library import Argument, Library

_TYPES = ("float", "int", "uint", "uchar", "half", "bfloat", "float2", "bool")
_KERNELS = "".join(
    f"""
kernel void array_{t}(device float* o [[buffer(0)]], device {t}* s [[buffer(1)]]) {{ o[0] = 1; }}
kernel void value_{t}(device float* o [[buffer(0)]], constant {t}& s [[buffer(1)]]) {{
  o[0] = {"s.x" if t == "float2" else "float(s)"};
}}"""
    for t in _TYPES
)
_CONSTANTS = """
constant int a [[function_constant(0)]];
constant uchar small [[function_constant(1)]];
constant int c [[function_constant(2)]];
constant int d = is_function_constant_defined(c) ? c : 5;
constant int e = a * 2;
float of_e() { return e; }
kernel void direct(device float* o [[buffer(0)]]) { o[0] = a; }
kernel void called(device float* o [[buffer(0)]]) { o[0] = of_e(); }
kernel void guarded(device float* o [[buffer(0)]]) { o[0] = d; }
struct Names { int a, called; };
kernel void members(device float* o [[buffer(0)]]) { Names n = {1, 2}; o[0] = n.a + n.called; }
kernel void hidden(device float* o [[buffer(0)]]) { int small = 3; o[0] = small; }
kernel void narrow(device float* o [[buffer(0)]]) { o[0] = small; }
"""
_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.fixture(scope="module")
def library() -> Library:
    return simulator.compile(_HEAD + _KERNELS + _CONSTANTS)


def _ran(
    library: Library,
    name: str,
    *given: Argument,
    constants: Mapping[int | str, bool | int | float] | None = None,
) -> float:
    o = np.zeros(1, np.float32)
    kernel = library.kernel(name, constants)
    kernel.launch([o, *given], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    return float(o[0])


@pytest.mark.parametrize("argument", ["grid", "threadgroup"])
@pytest.mark.parametrize(
    "size", [(0, 1, 1), (64, 1), (64.0, 1, 1), (1, 1, 1 << 32), (-1, 1, 1), 64, ("a", 1, 1)]
)
def test_a_size_that_is_none_names_its_argument(
    library: Library, argument: str, size: object
) -> None:
    sizes = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), argument: size}
    with pytest.raises(LaunchError, match=f"direct: {argument} is expected to be three integers"):
        library.kernel("direct", {0: 1}).launch(
            [np.zeros(1, np.float32)],
            grid=sizes["grid"],  # type: ignore[arg-type]
            threadgroup=sizes["threadgroup"],  # type: ignore[arg-type]
        )


def test_sizes_may_be_numpy_integers(library: Library) -> None:
    o, one = np.zeros(1, np.float32), np.int64(1)
    library.kernel("direct", {0: 3}).launch(
        [o],
        grid=(one, one, one),  # type: ignore[arg-type]
        threadgroup=(1, 1, 1),
    )
    assert o[0] == 3


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("float", np.ones(4)), ("int", np.arange(4)), ("uint", np.ones(4, np.float32)),
        ("float", np.ones(4, np.int32)), ("float2", np.ones(4)), ("half", np.ones(4, np.float32)),
        ("bfloat", np.ones(4, np.float16)), ("float", np.ones(4, ">f4")),
    ],
)  # fmt: skip
def test_an_array_of_other_elements_is_refused(library: Library, type_: str, array: Array) -> None:
    with pytest.raises(LaunchError, match=rf"s points to {type_}, expected an array of \w+ and "):
        _ran(library, f"array_{type_}", array)


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("float", np.ones(4, np.float32)), ("float", np.zeros(16, np.uint8)),
        ("float", np.zeros(2, [("a", "f4"), ("b", "u4")])), ("int", np.ones(4, np.uint32)),
        ("half", np.ones(4, np.uint16)), ("bfloat", np.ones(4, np.uint16)),
        ("bfloat", np.ones(4, ml_dtypes.bfloat16)), ("float2", np.ones(4, np.float32)),
        ("float2", np.ones(4, np.complex64)), ("bool", np.ones(4, np.bool_)),
    ],
)  # fmt: skip
def test_elements_and_raw_words_are_taken(library: Library, type_: str, array: Array) -> None:
    assert _ran(library, f"array_{type_}", array) == 1


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("float", np.float64(3.5), 3.5), ("uint", np.float32(4), 4), ("half", np.float32(1.5), 1.5),
        ("float", np.int64(7), 7), ("bfloat", np.float64(2), 2), ("int", np.int64(-5), -5),
        ("float", 0.1, float(np.float32(0.1))), ("bool", True, 1), ("uint", 3, 3),
    ],
)  # fmt: skip
def test_a_number_takes_the_type_of_its_parameter(
    library: Library, type_: str, value: Argument, expected: float
) -> None:
    assert _ran(library, f"value_{type_}", value) == expected


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", np.int64(2**33 + 5)), ("float", np.float64(0.1)), ("uint", np.float32(4.5)),
        ("uchar", 300), ("uint", -1), ("int", 2.5), ("int", 1 << 80), ("float", 1e300),
        ("half", np.float32(1e9)),
    ],
)  # fmt: skip
def test_a_number_that_a_type_does_not_hold_is_refused(
    library: Library, type_: str, value: Argument
) -> None:
    with pytest.raises(LaunchError, match=f"s is of type {type_}, which does not hold"):
        _ran(library, f"value_{type_}", value)


@pytest.mark.parametrize("name", ["direct", "called"])
def test_a_function_constant_without_a_value_is_refused(library: Library, name: str) -> None:
    with pytest.raises(LaunchError, match=rf"{name} uses the function constant a \(0\), which has"):
        _ran(library, name)
    assert _ran(library, name, constants={"a": 3}) == (3 if name == "direct" else 6)


def test_a_function_constant_that_is_asked_for_may_have_no_value(library: Library) -> None:
    assert _ran(library, "guarded") == 5


@pytest.mark.parametrize("name", ["members", "hidden"])
def test_another_thing_of_the_same_name_is_no_function_constant(
    library: Library, name: str
) -> None:
    assert _ran(library, name) == 3


@pytest.mark.parametrize(("name", "key", "value"), [("direct", 0, 2.5), ("narrow", "small", 300)])
def test_a_function_constant_holds_its_value(
    library: Library, name: str, key: int | str, value: float
) -> None:
    with pytest.raises(LaunchError, match=r"function constant \w+ is a .*, which does not hold"):
        _ran(library, name, constants={key: value})


def test_function_constants_of_two_types_share_no_index() -> None:
    text = "constant int a [[function_constant(0)]]; constant float b [[function_constant(0)]];"
    library = simulator.compile(_HEAD + text + "kernel void k(device float* o) { o[0] = a + b; }")
    with pytest.raises(LaunchError, match=r"a \(int\) and b \(float\) share the index 0"):
        library.kernel("k", {0: 2})
