"""Conditions on loaded data are found, told apart from others, watched and forced."""

import numpy as np
import pytest

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import Condition, ForcedCondition, RunOptions
from kernelwright.metal.device.executable import RunResult
from kernelwright.metal.device.simulator.device import SimulatorDevice, SimulatorExecutable
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.kernel import Kernel, Program, Tensor

_SIZE = 64


def _compiled(body: str, header: str = "") -> SimulatorExecutable:
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(_SIZE,))
    kernel = Kernel(
        name="k",
        inputs=("x",),
        outputs=("y",),
        source=f"uint i = thread_position_in_grid.x;\n{body}",
        header=header,
        grid=(_SIZE, 1, 1),
        threadgroup=(32, 1, 1),
    )
    outputs = (x.model_copy(update={"name": "y"}),)
    program = Program(inputs=(x,), outputs=outputs, kernels=(kernel,))
    return SimulatorDevice().compile(program.bind((TensorType((_SIZE,), Dtype.FLOAT32),)))


def _run(executable: SimulatorExecutable, *forced: ForcedCondition) -> RunResult:
    values = np.arange(_SIZE, dtype=np.float32)
    return executable.run((values,), RunOptions(watch=True, forced=forced))


def _conditions(body: str, header: str = "") -> tuple[Condition, ...]:
    return _run(_compiled(body, header)).conditions


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = x[i];",
        "if (i < 7) y[i] = x[i]; else y[i] = 2.0f * x[i];",
        "y[i] = metal::precise::exp(x[i]);",
        "float s = 0; for (int k = 0; k < x_shape[0]; ++k) s += x[k]; y[i] = s;",
        "bool first = i == 0; y[i] = simd_max(x[i]) + float(first);",
    ],
)
def test_what_hangs_on_no_data_is_not_watched(body: str) -> None:
    assert _conditions(body) == ()


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = x[i] > 1e9f ? 1.0f : 2.0f;",
        "bool b = x[i] > 1e9f; y[i] = float(b);",
        "float s = simd_sum(x[i]); if (s > 1e9f) y[i] = 1.0f; else y[i] = 2.0f;",
        (
            "threadgroup float t[32]; t[i % 32] = x[i]; "
            "threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = t[0] > 1e9f ? 1.0f : 2.0f;"
        ),
        "y[i] = metal::select(1.0f, 2.0f, x[i] > 1e9f);",
        (
            "float v[4]; for (int k = 0; k < 4; ++k) v[k] = x[(i + k) % 64]; "
            "y[i] = v[i % 4] > 1e9f ? 1.0f : 2.0f;"
        ),
        "int n = 0; if (x[i] > 1e9f) n = 1; y[i] = n == 1 ? 1.0f : 2.0f;",
    ],
)
def test_a_side_that_is_never_taken_shows(body: str) -> None:
    found = _conditions(body)

    assert any(not c.was_true and c.was_false for c in found)


def test_a_condition_says_where_it_stands_and_what_it_compares() -> None:
    (found,) = _conditions("y[i] = x[i] == 1000.0f ? 1.0f : 2.0f;")

    assert (found.file, found.line) == ("source", 2)
    assert found.compared == (63.0, 1000.0)
    assert found.loaded == ("x", "")
    assert found.is_known == (False, True)


@pytest.mark.parametrize(
    ("run", "loaded"),
    [
        ("packed_int2 run = *(const device packed_int2*)(x + i % 32 * 2); {each} run[k]", "x"),
        ("int run[2]; {load} run[k] = v[i % 32 * 2 + k]; {each} run[k]", "x"),
        ("int run[2]; {load} run[k] = v[i % 32 * 2 + k] + 1; {each} run[k]", ""),
        ("int run[3]; {load} run[k] = v[i]; {each} *(thread int*)((thread char*)run + k)", ""),
        ("{each} as_type<int>(*(const device packed_char4*)((const device char*)x + i + k))", ""),
    ],
)
def test_an_element_stays_one_in_a_threads_own_memory(run: str, loaded: str) -> None:
    each, load = "for (uint k = 0; k < 2; ++k) n += 77 <", "for (uint k = 0; k < 2; ++k)"
    text = run.format(each=each, load=load)

    found = _conditions(f"const device int* v = (const device int*)x; int n = 0; {text};y[i] = n;")

    assert {name for c in found for name in c.loaded} == {loaded, ""}


def test_two_elements_that_are_loaded_as_one_have_its_width() -> None:
    (found,) = _conditions("y[i] = *(const device ulong*)(x + i / 2 * 2) == 77ul ? 1.0f : 2.0f;")

    assert (found.loaded, found.loaded_bits) == (("x", ""), (64, 0))


def test_a_function_of_the_header_has_its_own_place() -> None:
    header = "inline bool large(float v) {\n  return v > 1e9f;\n}\n"

    (found,) = _conditions("y[i] = large(x[i]) ? 1.0f : 2.0f;", header)

    assert (found.file, found.line) == ("header", 2)


def test_what_a_function_loads_through_its_argument_may_be_of_any_buffer() -> None:
    header = (
        "__attribute__((noinline)) bool large(threadgroup const float* v) {\n"
        "  return v[0] > 1e9f;\n}\n"
    )
    body = (
        "threadgroup float t[32]; t[i % 32] = x[i];\n"
        "threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = large(t) ? 1.0f : 2.0f;"
    )

    (found,) = _conditions(body, header)

    assert found.loaded == ("", "")


def test_a_forced_condition_takes_the_other_side_in_every_thread() -> None:
    executable = _compiled("y[i] = x[i] > 1e9f ? 1.0f : 2.0f;")
    (found,) = _run(executable).conditions

    forced = ForcedCondition(launch=found.launch, site=found.site, value=True)

    assert (_run(executable, forced).outputs[0] == 1.0).all()
    assert (_run(executable).outputs[0] == 2.0).all()


def test_what_fills_a_variable_that_is_not_set_yet_is_no_number_of_the_text() -> None:
    (found,) = _conditions(
        "packed_uchar2 v = *(const device packed_uchar2*)(x + i); float s = 0;\n"
        "for (uint k = 0; k < 2; ++k) s += float(v[k]) * 2.0f;\n"
        "y[i] = s > 1e9f ? 1.0f : 2.0f;"
    )

    assert set(found.numbers) == {0.0, 1e9, 2.0}


def test_both_sides_are_seen_over_all_threads() -> None:
    (found,) = _conditions("y[i] = x[i] > 31.5f ? 1.0f : 2.0f;")

    assert found.was_false
    assert found.was_true


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("y[i] = x[i] * 3.5f - 17.25f > 0.0f ? 1.0f : 2.0f;", {3.5, -17.25}),
        ("float s = simd_sum(x[i] * 3.5f); if (s > 9.75f) y[i] = 1; else y[i] = 2;", {3.5, 9.75}),
        (
            (
                "threadgroup float t[32]; t[i % 32] = x[i] + 5.125f; "
                "threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = t[0] > x[1] ? 1 : 2;"
            ),
            {5.125},
        ),
        ("y[i] = metal::precise::exp(x[i]) > x[63 - i] ? 1.0f : 2.0f;", set()),
    ],
)
def test_a_condition_tells_the_numbers_behind_it(body: str, numbers: set[float]) -> None:
    found = _conditions(body)

    assert numbers <= {n for c in found for n in c.numbers}
    if not numbers:
        assert all(not c.numbers for c in found)


def test_a_condition_tells_if_bits_of_floats_stand_behind_it() -> None:
    plain = _conditions("y[i] = int(x[i]) > 77 ? 1.0f : 2.0f;")
    (loaded,) = _conditions("y[i] = as_type<int>(x[i]) > 77 ? 1.0f : 2.0f;")
    (computed,) = _conditions("y[i] = as_type<int>(x[i] * 3.5f) > 77 ? 1.0f : 2.0f;")

    assert not any(c.reads_bits or c.as_integers for c in plain)
    assert loaded.as_integers == ("x",)
    assert computed.reads_bits


@pytest.mark.parametrize(
    ("body", "reads_bits"),
    [
        ("y[i] = float(pair[i & 1]) > 77 ? 1.0f : 2.0f;", False),
        ("float2 two = float2(pair); y[i] = two[i & 1] > 77 ? 1.0f : 2.0f;", False),
        ("y[i] = as_type<int>(float(pair[i & 1])) > 77 ? 1.0f : 2.0f;", True),
        ("thread int* bits = (thread int*)&pair; y[i] = bits[i & 1] > 77 ? 1.0f : 2.0f;", True),
        ("thread long* all = (thread long*)&pair; y[i] = *all > 77 ? 1.0f : 2.0f;", True),
    ],
)
def test_floats_that_are_moved_as_a_word_stay_floats(body: str, reads_bits: bool) -> None:
    load = "packed_float2 pair = *(const device packed_float2*)(x + i / 2 * 2);\n"
    conditions = _conditions(load + body)

    assert any(c.as_integers or c.reads_bits for c in conditions) is reads_bits


@pytest.mark.parametrize(
    ("flag", "compares"), [("x[i] != x[i]", False), ("x[i] > 3.0f && x[i] < 9.0f", True)]
)
def test_a_flag_tells_if_it_asks_for_more_than_special_numbers(flag: str, compares: bool) -> None:
    found = _conditions(f"y[i] = simd_or(uint({flag})) != 0u ? 1.0f : 2.0f;")

    assert any(c.compares for c in found if c.kind.startswith("icmp")) is compares


@pytest.mark.parametrize(
    ("joined", "is_watched"),
    [
        ("metal::isinf(x[i]) && x[i] == 0.0f", False),
        ("x[i] > 4.0f && x[i] < 3.0f", False),
        ("x[i] > 4.0f && x[i] < 4.00001f", True),
        ("metal::abs(x[i]) > 4.0f && x[i] < 3.0f", True),
    ],
)
def test_what_no_number_meets_is_not_watched(joined: str, is_watched: bool) -> None:
    found = _conditions(f"y[i] = {joined} ? 1.0f : 2.0f;")

    assert any(not c.kind.startswith("fcmp") for c in found) is is_watched


def test_a_flag_that_branches_set_hangs_on_their_conditions() -> None:
    found = _conditions(
        "int met = 0; if (x[i] > 3.0f) { if (x[63 - i] > 2.0f) met = 1; else met = 2; }"
        "y[i] = simd_max(met) == 1 ? 1.0f : 2.0f;"
    )

    assert [c.compares for c in found if c.kind == "icmp eq"] == [True]


def test_a_loop_whose_end_is_forced_away_ends_soon() -> None:
    body = "float s = x[i]; while (true) { s += 1.0f; if (s > 40.0f) break; } y[i] = s;"
    executable = _compiled(body)
    (condition,) = _run(executable).conditions
    forced = ForcedCondition(launch=condition.launch, site=condition.site, value=False)
    options = RunOptions(watch=True, forced=(forced,), timeout_s=0.2)
    with pytest.raises(LaunchError, match=r"did not end in 0\.2 s of processor time"):
        executable.run((np.arange(_SIZE, dtype=np.float32),), options)


_INTEGER = "int n = int(x[i]); "


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("y[i] = metal::max(x[i], 900.0f);", "fcmp ogt"),
        ("y[i] = metal::saturate(x[i] + 2.0f);", "fcmp olt"),
        (f"{_INTEGER} y[i] = metal::min(n, 900);", "icmp slt"),
        (f"{_INTEGER} y[i] = n > 900 ? n - 900 : 0;", "icmp s"),
        ("uint n = uint(x[i]); y[i] = n > 900u ? n - 900u : 0u;", "icmp ugt"),
        (
            (
                f"{_INTEGER} switch (n) {{ case 900: y[i] = 1; break; case 950: y[i] = 2; break;"
                " case 999: y[i] = 5; break; default: y[i] = 3; }"
            ),
            "icmp eq",
        ),
        ("float2 v(x[i], x[63 - i]); y[i] = metal::any(v > float2(1e9f)) ? 1 : 2;", "fcmp ogt"),
        ("uint n = uint(x[i]); y[i] = float(n / 900u);", "icmp nonzero"),
        ("uint n = uint(x[i]); y[i] = float(n >> 9);", "icmp nonzero"),
        ("y[i] = float(int(x[i] / 900.0f));", "fcmp nonzero"),
        ("y[i] = metal::floor(x[i] / 900.0f);", "fcmp nonzero"),
    ],
)
def test_what_decides_without_a_condition_is_watched_as_one(body: str, kind: str) -> None:
    found = _conditions(body)

    assert [c for c in found if c.kind.startswith(kind) and c.was_true != c.was_false]


def test_an_extreme_of_numbers_made_alike_waits_for_none_of_the_text() -> None:
    alike = "float a = x[i] * 3.5f - 7.25f, b = x[63 - i] * 3.5f - 7.25f; y[i] = metal::max(a, b);"
    (found,) = _conditions(alike)
    (apart,) = _conditions("y[i] = metal::max(x[i], x[63 - i] * 3.5f - 7.25f);")

    assert found.numbers == ()
    assert set(apart.numbers) == {3.5, -7.25}


def test_what_is_never_zero_decides_nothing() -> None:
    found = _conditions("y[i] = metal::floor(x[i] + 5.5f) + float((uint(x[i]) + 64u) >> 6);")

    assert all(c.was_false for c in found)


@pytest.mark.parametrize(
    "value",
    [
        "metal::max(v, w)",
        "metal::min(v, w)",
        "metal::clamp(v, -1.0f, w)",
        "float(metal::max(int(w), 9))",
        "float(uint(w) / 7u)",
        "float(int(-w))",
        "metal::floor(-w * 0.37f)",
        "metal::rint(w * 0.1f)",
        "float(uint(w) > 40u ? uint(w) - 40u : 0u)",
    ],
)
def test_watching_changes_no_result(value: str) -> None:
    executable = _compiled(
        f"float w = x[i], v = i % 5 == 0 ? NAN : i % 7 == 0 ? -INFINITY : 31 - w; y[i] = {value};"
    )
    inputs = (np.arange(_SIZE, dtype=np.float32),)

    plain = executable.run(inputs, RunOptions()).outputs[0]
    watched = _run(executable).outputs[0]

    np.testing.assert_array_equal(watched, plain)


def test_a_maximum_that_is_forced_takes_its_other_operand() -> None:
    executable = _compiled("y[i] = metal::max(x[i], 900.0f);")
    (found,) = _run(executable).conditions
    forced = ForcedCondition(launch=found.launch, site=found.site, value=True)

    np.testing.assert_array_equal(_run(executable, forced).outputs[0], np.arange(_SIZE))


@pytest.mark.parametrize(
    ("body", "reads_bits"),
    [
        ("float v = simd_shuffle_xor(x[i], 1); y[i] = v > 77 ? 1.0f : 2.0f;", False),
        ("half v = simd_shuffle_xor(half(x[i]), 1); y[i] = v > 77 ? 1.0f : 2.0f;", False),
        ("uint v = simd_shuffle_xor(as_type<uint>(x[i]), 1); y[i] = v > 77 ? 1 : 2;", True),
        ("int v = as_type<int>(simd_shuffle_xor(x[i], 1)); y[i] = v > 77 ? 1 : 2;", True),
        ("uint v = as_type<uint>(x[i] * 2) << 16; y[i] = as_type<float>(v) > 77 ? 1 : 2;", True),
    ],
)
def test_floats_that_lanes_hand_each_other_stay_floats(body: str, reads_bits: bool) -> None:
    conditions = _conditions(body)

    assert conditions
    assert any(c.as_integers or c.reads_bits for c in conditions) is reads_bits


def test_no_place_of_a_thread_is_data_in_a_long_kernel() -> None:
    """Nor is it where paths to operations of simdgroups are told."""
    terms = "\n#pragma unroll\nfor (uint n = 0; n < 5000; ++n) v = v * x[i] + 1.5f;"
    body = f"float v = i < 5u ? 1.0f : 2.0f; {terms} y[i] = i < 3u ? simd_sum(v) : v;"

    assert _conditions(body) == ()
