"""Programs run on the simulator as MLX would run them, and cannot hide what they do."""

import ml_dtypes
import numpy as np
import pytest

from kernelwright import metal
from kernelwright.errors import InputError
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array, Changes, RunResult
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.diagnostic import LaunchError, ReportKind
from kernelwright.metal.kernel import BoundProgram, Kernel, Program, Tensor

I = "uint i = thread_position_in_grid.x;\n"  # noqa: E741


def kernel(source: str, inputs: str, outputs: str, threads: int = 64, **options: object) -> Kernel:
    launch = {"grid": (threads, 1, 1), "threadgroup": (32, 1, 1), **options}
    return Kernel.model_validate(
        {
            "name": "made",
            "inputs": tuple(inputs.split()),
            "outputs": tuple(outputs.split()),
            "source": source,
            **launch,
        }
    )


def program(
    *kernels: Kernel,
    inputs: dict[str, str],
    outputs: dict[str, str],
    temporaries: dict[str, str] | None = None,
) -> BoundProgram:
    def tensors(texts: dict[str, str]) -> tuple[Tensor, ...]:
        types = {n: TensorType.parse(t) for n, t in texts.items()}
        return tuple(Tensor(name=n, dtype=t.dtype, shape=t.shape) for n, t in types.items())

    made = Program(
        inputs=tensors(inputs),
        outputs=tensors(outputs),
        temporaries=tensors(temporaries or {}),
        kernels=kernels,
    )
    return made.bind([TensorType.parse(t) for t in inputs.values()])


def ran(bound: BoundProgram, *arrays: Array, **options: object) -> RunResult:
    chosen = RunOptions.model_validate(options)
    executable = SimulatorDevice().compile(bound, sanitize=chosen.sanitize)
    return executable.run(arrays, chosen)


X = np.arange(64, dtype=np.float32)


def test_kernels_run_in_order_through_temporaries() -> None:
    bound = program(
        kernel(I + "t[i] = x[i] + 1;", "x", "t"),
        kernel(I + "y[i] = t[63 - i] * 2;", "t", "y"),
        inputs={"x": "f32[64]"},
        temporaries={"t": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    result = ran(bound, X)
    np.testing.assert_array_equal(result.outputs[0], (X[::-1] + 1) * 2)
    assert result.canaries_intact == (True,)
    assert result.inputs_intact


def test_fresh_outputs_hold_poison_and_initial_values() -> None:
    half = I + "if (i < 32) y[i] = 1;"
    bound = program(kernel(half, "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"})
    assert np.isnan(ran(bound, X).outputs[0][32:]).all()
    assert (ran(bound, X, poison=0x40).outputs[0][32:].view(np.uint32) == 0x40404040).all()
    initial = program(
        kernel(half, "x", "y", init_value=7.0), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"}
    )
    assert (ran(initial, X).outputs[0][32:] == 7).all()


@pytest.mark.parametrize(
    ("place", "intact"), [("64", False), ("-1", False), ("63", True), ("900", False)]
)
def test_writes_beside_an_output_break_its_canaries(place: str, intact: bool) -> None:
    bound = program(
        kernel(I + f"y[i] = 0; if (i == 0) y[{place}] = 1;", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    assert ran(bound, X).canaries_intact == (intact,)


@pytest.mark.parametrize("array", ["y", "((device float*)x)"])
@pytest.mark.parametrize("place", ["1u << 20", "-(1 << 20)", "0u - 1", "-2147483647 - 1"])
def test_writes_far_from_an_array_find_no_memory(array: str, place: str) -> None:
    bound = program(
        kernel(I + f"y[i] = x[i]; if (i == 0) {array}[{place}] = 1;", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    with pytest.raises(LaunchError, match="accessed memory of no buffer"):
        ran(bound, X)


@pytest.mark.parametrize("place", ["1 << 20", "-(1 << 20)", "1 << 30"])
def test_writes_far_from_threadgroup_memory_find_none(place: str) -> None:
    source = f"threadgroup float t[64]; t[i] = x[i]; volatile int far = {place}; t[far] = 1; "
    bound = program(
        kernel(I + source + "y[i] = t[i];", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    with pytest.raises(LaunchError, match="accessed memory of no buffer"):
        ran(bound, X)


def test_writes_beside_an_input_are_seen() -> None:
    bound = program(
        kernel(I + "y[i] = x[i]; if (i == 5) ((device float*)x)[70] = 9;", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    assert not ran(bound, X).inputs_intact


def test_writes_to_an_input_are_seen_and_stay_private() -> None:
    bound = program(
        kernel(I + "y[i] = x[i]; if (i == 5) ((device float*)x)[i] = 9;", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    mine = X.copy()
    assert not ran(bound, mine).inputs_intact
    np.testing.assert_array_equal(mine, X)


@pytest.mark.parametrize(
    "view",
    [
        X.reshape(8, 8).T,
        np.broadcast_to(X[:8], (8, 8)),
        np.tile(X.reshape(8, 8), 2)[:, ::2],
        X.reshape(8, 8)[::-1],
    ],
    ids=["transposed", "broadcast", "every second", "reversed"],
)
@pytest.mark.parametrize("contiguous", [True, False])
def test_strided_inputs_arrive_with_their_strides(view: Array, contiguous: bool) -> None:
    source = I + "y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];"
    bound = program(
        kernel(source, "x", "y", ensure_row_contiguous=contiguous),
        inputs={"x": "f32[8,8]"},
        outputs={"y": "f32[8,8]"},
    )
    result = ran(bound, view)
    np.testing.assert_array_equal(result.outputs[0], view)
    assert result.inputs_intact


def test_atomic_outputs_add_up_over_all_threads() -> None:
    source = I + "atomic_fetch_add_explicit(&y[i % 2], x[i], memory_order_relaxed);"
    bound = program(
        kernel(source, "x", "y", threads=4096, atomic_outputs=True, init_value=0.0),
        inputs={"x": "i32[4096]"},
        outputs={"y": "i32[2]"},
    )
    numbers = np.arange(4096, dtype=np.int32)
    assert ran(bound, numbers).outputs[0].tolist() == [numbers[::2].sum(), numbers[1::2].sum()]


def test_templates_scalars_and_short_types_arrive() -> None:
    bound = program(
        kernel(I + "y[i] = T(x[i] * s) + (F ? N : 0);", "x s", "y",
               template={"T": "bfloat16", "N": 3, "F": True}),
        inputs={"x": "f16[64]", "s": "f32[]"},
        outputs={"y": "bf16[64]"},
    )  # fmt: skip
    y = ran(bound, X.astype(np.float16), np.array(2, np.float32)).outputs[0]
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), 2 * X + 3)


@pytest.mark.parametrize(("math_mode", "error"), [("safe", 2.0**-24), ("fast", 0.0)])
def test_fast_math_may_simplify_a_compensation_away(math_mode: str, error: float) -> None:
    source = I + "float s = x[i] + 1.0f; y[i] = (s - 1.0f) - x[i];"
    bound = program(
        kernel(source, "x", "y", math_mode=math_mode),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    x = np.full(64, 2.0**-24, np.float32)
    assert abs(ran(bound, x).outputs[0][0]) == error


def test_an_error_points_into_the_source_that_was_given() -> None:
    bound = program(
        kernel("// one\n" + I + "  y[i] = x[i] + /* b */ b;", "x", "y"),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    with pytest.raises(metal.CompileError, match="undeclared identifier 'b'") as refused:
        SimulatorDevice().compile(bound)
    [found] = refused.value.diagnostics
    assert (found.file, found.line, found.column) == ("source", 3, 25)
    assert found.source_line == "  y[i] = x[i] + /* b */ b;"


def test_a_small_input_lies_in_constant_memory() -> None:
    bound = program(
        kernel(I + "const device float* p = w;\ny[i] = p[0];", "w", "y"),
        inputs={"w": "f32[7]"},
        outputs={"y": "f32[64]"},
    )
    with pytest.raises(metal.CompileError, match="with an lvalue of type 'constant float"):
        SimulatorDevice().compile(bound)


def test_reports_name_the_candidates_line_and_array() -> None:
    bound = program(
        kernel(I + "y[i] = x[i + 1];", "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"}
    )
    [report] = ran(bound, X, sanitize=True).reports
    assert report.kind is ReportKind.DEVICE_OUT_OF_BOUNDS
    assert (report.file, report.line, report.variable) == ("source", 2, "x")


def test_counting_beside_sanitizing_gives_both() -> None:
    bound = program(
        kernel(I + "y[i] = x[i];", "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"}
    )
    result = ran(bound, X, sanitize=True, count=True)
    assert result.reports == ()
    [counters] = result.counters
    assert [(b.name, b.bytes_read + b.bytes_written) for b in counters.buffers] == [
        ("x", 256),
        ("y", 256),
    ]


@pytest.mark.parametrize(
    ("header", "value", "words"),
    [
        ("float twice(float v);\n", "twice(x[i])", "twice is used and has no definition"),
        ("", "x[i] * 2.0q + 1.0f", "a type or an operation needs __.*, which Metal has not"),
    ],
    ids=["a function without a body", "a 128-bit literal"],
)
def test_what_does_not_link_is_the_texts_fault(header: str, value: str, words: str) -> None:
    written = kernel(I + f"y[i] = {value};", "x", "y").model_copy(update={"header": header})
    bound = program(written, inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"})
    with pytest.raises(metal.CompileError, match=words):
        ran(bound, X)


def test_a_threadgroup_beyond_the_limit_is_refused_as_mlx_refuses_it() -> None:
    bound = program(
        kernel(I + "y[i] = x[i];", "x", "y", threadgroup=(2048, 1, 1)),
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
    )
    with pytest.raises(metal.LaunchError, match="at most 1024 threads, found 2048"):
        ran(bound, X)


def test_arrays_of_other_types_are_refused() -> None:
    bound = program(
        kernel(I + "y[i] = x[i];", "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"}
    )
    with pytest.raises(InputError, match=r"x is f32\[64\] in the program, found float64"):
        ran(bound, X.astype(np.float64))


def test_the_device_says_what_it_is() -> None:
    info = SimulatorDevice().info
    assert info.name == "simulator"
    assert not info.measures_time
    assert "ziglang" in info.runtime


def test_launches_of_one_process_have_limits_of_their_own() -> None:
    source = "threadgroup float t[16384];\nt[i + 16320] = x[i];\ny[i] = t[i + 16320];"
    bound = program(kernel(I + source, "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"})
    small = program(
        kernel(I + "y[i] = x[i];", "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"}
    )
    for sanitize in (False, True):
        options = RunOptions(sanitize=sanitize)
        for device, one in ((SimulatorDevice(65536), bound), (SimulatorDevice(), small)):
            result = device.compile(one, sanitize=sanitize).run((X,), options)
            np.testing.assert_array_equal(result.outputs[0], X)
            assert result.reports == ()


def test_a_lifted_limit_names_itself_where_it_is_exceeded() -> None:
    source = "threadgroup float t[SIZE];\n" + I + "t[0] = x[i];\ny[i] = t[0];"
    types = {"inputs": {"x": "f32[64]"}, "outputs": {"y": "f32[64]"}}
    roomy = SimulatorDevice(98304)
    fits, exceeds = (
        roomy.compile(program(kernel(source.replace("SIZE", size), "x", "y"), **types))
        for size in ("24576", "24577")
    )
    fits.run((X,), RunOptions())
    with pytest.raises(LaunchError, match="needs 98308 bytes, this device has 98304"):
        exceeds.run((X,), RunOptions())


def changes(runs: int) -> Changes:
    """Put a large number at another place of `X` in each run."""
    places = np.arange(runs, dtype=np.intp)[:, None] * 7
    return Changes(0, places, np.full((runs, 1), 1000, np.float32))


@pytest.mark.parametrize("contiguous", [True, False])
def test_many_runs_in_one_memory_give_what_single_runs_give(contiguous: bool) -> None:
    double = kernel(f"{I}t[i] = 2 * x[i];", "x", "t", ensure_row_contiguous=contiguous)
    shift = kernel(f"{I}if (i != 3) y[i] = t[i] + x[i];", "x t", "y")
    bound = program(
        double,
        shift,
        inputs={"x": "f32[64]"},
        outputs={"y": "f32[64]"},
        temporaries={"t": "f32[64]"},
    )
    executable, options = SimulatorDevice().compile(bound), RunOptions(padding_seed=5)
    given, many = X.copy(), changes(9)
    result = executable.run_changed([given], [many], options)
    single = [executable.run([many.applied(X, run)], options) for run in range(9)]
    wanted = np.stack([one.outputs[0] for one in single])
    assert result.outputs[0].tobytes() == wanted.tobytes(), "the place left out holds poison"
    assert result.inputs_intact
    assert result.canaries_intact == (True,)
    assert given.tobytes() == X.tobytes()


def test_one_run_of_many_that_changes_an_input_is_noticed() -> None:
    text = f"{I}y[i] = x[i]; if (x[i] == 1000 && i == 14) const_cast<device float*>(x)[i] = 1;"
    text = text.replace("const_cast<device float*>(x)", "((device float*)x)")
    bound = program(kernel(text, "x", "y"), inputs={"x": "f32[64]"}, outputs={"y": "f32[64]"})
    executable = SimulatorDevice().compile(bound)
    assert executable.run_changed([X], [changes(2)], RunOptions()).inputs_intact
    assert not executable.run_changed([X], [changes(9)], RunOptions()).inputs_intact
