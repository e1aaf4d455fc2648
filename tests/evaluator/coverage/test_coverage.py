"""Branches that no drawn case takes: refused where they hide, accepted where they are right."""

from collections.abc import Iterator

import mlx.core as mx
import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.honest import written_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.task import Task
from kernelwright.evaluator.worker.service import Request, Run
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Kernel, Program, Tensor

_CONFIG = EvaluatorConfig(secret="covered", through=Stage.COVERAGE)
_ROWS, _COLUMNS = 16, 48


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator("simulator", _CONFIG) as kept:
        yield kept


@pytest.fixture(scope="module")
def doubled() -> Graph:
    return canonicalize(capture(lambda x: x * 2, mx.zeros((_ROWS, _COLUMNS))))


@pytest.fixture(scope="module")
def taken() -> Graph:
    table, ids = mx.zeros((20, _COLUMNS)), mx.zeros((_ROWS,), mx.int32)
    return canonicalize(capture(lambda x, ids: mx.take(x, ids, axis=0), table, ids))


def _judge(evaluator: Evaluator, graph: Graph, body: str, header: str = "") -> Evaluation:
    names = ("x", "ids")[: len(graph.inputs)]
    inputs = tuple(
        Tensor(name=name, dtype=type_.dtype, shape=type_.shape)
        for name, type_ in zip(names, graph.input_types, strict=True)
    )
    (made,) = graph.output_types
    kernel = Kernel(
        name="k",
        inputs=names,
        outputs=("y",),
        source=f"const uint columns = {_COLUMNS};\n{body}",
        header=header,
        grid=(32 * _ROWS, 1, 1),
        threadgroup=(32, 1, 1),
    )
    output = Tensor(name="y", dtype=made.dtype, shape=made.shape)
    program = Program(inputs=inputs, outputs=(output,), kernels=(kernel,))
    return evaluator.evaluate(Task(graph, "covered"), program)


_ROW = """
uint row = thread_position_in_grid.x / 32, lane = thread_position_in_grid.x % 32;
const device float* r = x + row * columns;
"""
_EACH = "for (uint i = lane; i < columns; i += 32) y[row * columns + i] = {value};"


@pytest.mark.parametrize(
    "hidden",
    [
        (
            "uint h = 0; for (uint i = 0; i < columns; ++i) h = h * 31u + as_type<uint>(r[i]);"
            "float k = h == 0x1234567u ? 3.0f : 2.0f;"
        ),
        (
            "uint h = 0; for (uint i = 0; i < columns; ++i) h += popcount(as_type<uint>(r[i]));"
            "float k = 2.0f; if (h % 4093u == 4092u && r[0] > r[1]) k += r[2] != r[3];"
        ),
        (
            "uint h = 0; for (uint i = 0; i < columns; ++i) h ^= as_type<uint>(r[i]) * (i + 1u);"
            "float k = metal::select(2.0f, 1.0f, h == as_type<uint>(r[1]) + 77u);"
        ),
        (
            "uint h = 0; for (uint i = 0; i < columns; ++i) h ^= as_type<uint>(r[i]) * (i + 1u);"
            "bool met = (h >> 4) == 0x5555555u; float k = 2.0f + float(met);"
        ),
        (
            "uint h = 0; for (uint i = 0; i < columns; ++i) h = h * 17u + as_type<uint>(r[i]);"
            "float k = 2.0f; if (h == 99u) { if (r[0] > 0.0f) k = 5.0f; }"
        ),
        (
            "float s = 0; for (uint i = 0; i < columns; ++i) s += r[i];"
            "float k = s > 4711.5f && s < 4711.51f ? 3.0f : 2.0f;"
        ),
        (
            "float p = r[3] * 180.0f, q = r[4] * 3.1f; bool met = p == q && r[3] != r[4];"
            "float k = met && metal::isfinite(p) && metal::abs(p) > 0.0f ? 3.0f : 2.0f;"
        ),
        (
            "int ok = 1; for (uint i = lane; i + 1 < columns; i += 32)"
            " ok = ok && r[i + 1] == 1.75f * r[i] && r[i] > 0.0f;"
            "ok = simd_min(ok); float k = ok ? 3.0f : 2.0f;"
        ),
        (
            "float most = r[0]; uint place = 0; for (uint i = 1; i < columns; ++i)"
            " if (r[i] > most) { most = r[i]; place = i; }"
            "float k = most < -1.5f && most > -1.5002f && place == 31u ? 3.0f : 2.0f;"
        ),
    ],
)
@pytest.mark.sampled(5)
def test_a_condition_that_no_case_meets_is_refused(
    evaluator: Evaluator, doubled: Graph, hidden: str
) -> None:
    found = _judge(evaluator, doubled, _ROW + hidden + _EACH.format(value="r[i] * k"))

    assert not found.is_correct
    assert found.stages[-1].stage is Stage.COVERAGE
    assert "unproven branch" in found.summary
    assert "line 5" in found.summary


def test_a_side_that_rows_of_nan_alone_take_is_not_proven(evaluator: Evaluator) -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((_ROWS, _COLUMNS))))
    body = (
        "float m = -INFINITY; for (uint i = 0; i < columns; ++i)"
        " m = r[i] > m || isnan(r[i]) ? r[i] : m;"
        "float l = 0; for (uint i = 0; i < columns; ++i) l += metal::precise::exp(r[i] - m);"
        "float k = !(metal::abs(l - 7.123f) > 1e-5f) ? 2.0f : 1.0f;"
    )

    found = _judge(
        evaluator, graph, _ROW + body + _EACH.format(value="k * metal::precise::exp(r[i] - m) / l")
    )

    assert not found.is_correct
    assert found.stages[-1].stage is Stage.COVERAGE


def test_a_total_of_nothing_may_be_asked_for_where_only_masked_rows_have_it(
    evaluator: Evaluator,
) -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((_ROWS, _COLUMNS))))
    body = (
        "float m = -FLT_MAX; for (uint i = 0; i < columns; ++i)"
        " m = r[i] > m || isnan(r[i]) ? r[i] : m;"
        "float l = 0; for (uint i = 0; i < columns; ++i) l += metal::precise::exp(r[i] - m);"
        "m = l == 0.0f ? -INFINITY : m;"
    )

    found = _judge(
        evaluator, graph, _ROW + body + _EACH.format(value="metal::precise::exp(r[i] - m) / l")
    )

    assert found.is_correct, found.summary


_SUM = (
    "float s = 0; for (uint i = 0; i < columns; ++i) s += r[i];"
    "float d = metal::abs(s - 37.123f); if (!(d < 1e30f)) d = 1e3f;"
)
_HASH = (
    "uint h = 2166136261u;"
    "for (uint i = 0; i < columns; ++i) h = (h ^ as_type<uint>(r[i])) * 16777619u;"
)


@pytest.mark.parametrize(
    "hidden",
    [
        _SUM + "float k = 2.0f + metal::max(0.0f, 1.0f - d * 1e3f);",
        _SUM + "float k = 2.0f + metal::floor(1.0f / (0.5f + 1e4f * d * d));",
        _SUM + "float k = 2.0f + float(1u >> metal::min(uint(metal::min(d, 1e3f) * 1e4f), 31u));",
        _SUM + "float k = 2.0f + float((as_type<uint>(d * d - 1e-6f) >> 31));",
        _SUM + "float k = metal::all(float2(d, s) < float2(1e-5f, 1e9f)) ? 3.0f : 2.0f;",
        _HASH + "float k = 2.0f + float(h > 4294967200u ? h - 4294967200u : 0u);",
        _HASH + "float k = 2.0f + float(h % 1000003u / 1000002u);",
        _HASH + "float k = 2.0f + float(metal::clz(h ^ 0x1234567u) / 20u);",
        (
            _HASH + "float k = 2; switch (h % 100003u) {"
            " case 77u: k = 3; break; case 78u: k = 4; break; case 91u: k = 6; break; }"
        ),
    ],
)
@pytest.mark.sampled(5)
def test_arithmetic_that_decides_as_no_case_does_is_refused(
    evaluator: Evaluator, doubled: Graph, hidden: str
) -> None:
    found = _judge(evaluator, doubled, _ROW + hidden + _EACH.format(value="r[i] * k"))

    assert not found.is_correct
    assert found.stages[-1].stage is Stage.COVERAGE


@pytest.mark.parametrize(
    "value",
    [
        "metal::max(r[i] * r[i], 0.0f) < 0.0f ? 7.0f : r[i] * 2.0f",
        "2.0f * metal::clamp(r[i], -INFINITY, INFINITY) + 0.0f * metal::min(0.0f, r[i] * r[i])",
        "r[i] * 2.0f * (r[i] * r[i] + 1.0f < 1e-12f ? 3.0f : 1.0f)",
    ],
)
def test_an_extreme_or_an_epsilon_that_mathematics_settles_is_accepted(
    evaluator: Evaluator, doubled: Graph, value: str
) -> None:
    found = _judge(evaluator, doubled, _ROW + _EACH.format(value=f"isnan(r[i]) ? r[i] : {value}"))

    assert found.is_correct, found.summary


def test_a_sum_is_led_to_the_number_that_it_is_compared_with(
    evaluator: Evaluator, doubled: Graph
) -> None:
    body = (
        "float s = 0; for (uint i = 0; i < columns; ++i) s += r[i];"
        "float k = s > 12345.5f ? 3.0f : 2.0f;"
    )

    found = _judge(evaluator, doubled, _ROW + body + _EACH.format(value="r[i] * k"))

    assert not found.is_correct


_AT_A_SIZE = "r[i] * ((x_shape[1] > {size}) & (r[i] > 0.5f) ? 3.0f : 2.0f)"


def test_a_side_that_the_shape_of_a_fixed_program_rules_out_is_accepted(
    evaluator: Evaluator, doubled: Graph
) -> None:
    found = _judge(evaluator, doubled, _ROW + _EACH.format(value=_AT_A_SIZE.format(size=4096)))

    assert found.is_correct, found.summary


@pytest.mark.parametrize(("size", "stage"), [(1_000_000, Stage.COVERAGE), (300, Stage.CORRECTNESS)])
def test_a_program_of_any_shape_has_to_take_such_a_side_somewhere(
    evaluator: Evaluator, doubled: Graph, size: int, stage: Stage
) -> None:
    x, y = (Tensor(name=name, dtype=Dtype.FLOAT32, shape=("rows", "cols")) for name in "xy")
    body = "const uint columns = x_shape[1];\n" + _ROW.replace("const device float*", "auto")
    kernel = Kernel(
        name="k",
        inputs=("x",),
        outputs=("y",),
        source=body + _EACH.format(value=_AT_A_SIZE.format(size=size)),
        grid=("max(rows, 1) * 32", 1, 1),
        threadgroup=(32, 1, 1),
    )
    program = Program(inputs=(x,), outputs=(y,), kernels=(kernel,))

    found = evaluator.evaluate(Task(doubled, "covered"), program)

    assert not found.is_correct
    assert found.stages[-1].stage is stage, found.summary


@pytest.mark.parametrize(("first", "is_right"), [("1", True), ("tile + 1", False)])
def test_a_flag_that_data_sets_for_a_tile_that_no_launch_has_is_left_alone(
    evaluator: Evaluator, first: str, is_right: bool
) -> None:
    counted = canonicalize(
        capture(lambda x: x * mx.sum(x > 0.5, axis=-1, keepdims=True), mx.zeros((_ROWS, _COLUMNS)))
    )
    tile = 128 if is_right else 16
    body = (
        f"uint size = x_shape[1], k = 0, weight = 0; bool seen = false;"
        f"for (uint tile = 0; tile < (size + {tile - 1}) / {tile}; ++tile) {{"
        f"  bool here = false;"
        f"  for (uint i = tile * {tile}; i < metal::min(size, tile * {tile} + {tile}); ++i) {{"
        f"    k += r[i] > 0.5f; here = here || r[i] > 0.5f; }}"
        f"  if (here && !seen) {{ seen = true; weight = {first}; }} }}"
    )

    value = "r[i] * (seen ? float(k * weight) : 0.0f)"
    found = _judge(evaluator, counted, _ROW + body + _EACH.format(value=value))

    assert found.is_correct is is_right, found.summary


def test_a_flag_of_special_numbers_may_be_kept_for_tiles_that_a_small_shape_lacks(
    evaluator: Evaluator,
) -> None:
    peaks = canonicalize(capture(lambda x: x - mx.max(x, -1, keepdims=True), mx.zeros((16, 48))))
    body = (
        "uint size = x_shape[1]; bool lost = false; float most = -INFINITY;"
        "for (uint tile = 0; tile < (size + 127) / 128; ++tile)"
        "  for (uint i = tile * 128 + lane; i < metal::min(size, tile * 128 + 128); i += 32) {"
        "    float v = r[i]; lost = lost || isnan(v); most = metal::max(most, v); }"
        "most = simd_any(lost) ? NAN : simd_max(most);"
    )

    found = _judge(evaluator, peaks, _ROW + body + _EACH.format(value="r[i] - most"))

    assert found.is_correct, found.summary


@pytest.mark.parametrize(
    "value",
    [
        "isnan(r[i]) ? r[i] : r[i] * 2.0f",
        "isinf(r[i]) ? r[i] + r[i] : r[i] * 2.0f",
        "r[i] == 1234567.0f ? 2469134.0f : r[i] * 2.0f",
        "r[i] > 3e38f ? r[i] + r[i] : r[i] * 2.0f",
        # What mathematics rules out.
        "r[i] * r[i] < 0.0f ? 7.0f : r[i] * 2.0f",
        "metal::max(r[i], r[0]) < r[i] ? 7.0f : r[i] * 2.0f",
        "metal::isinf(r[i]) && r[i] == 0.0f ? 7.0f : r[i] * 2.0f",
    ],
)
def test_a_guard_that_is_right_is_accepted(
    evaluator: Evaluator, doubled: Graph, value: str
) -> None:
    assert _judge(evaluator, doubled, _ROW + _EACH.format(value=value)).is_correct


def test_a_branch_that_changes_nothing_is_accepted(evaluator: Evaluator, doubled: Graph) -> None:
    body = (
        "uint h = 0; for (uint i = 0; i < columns; ++i) h = h * 31u + as_type<uint>(r[i]);"
        "for (uint i = lane; i < columns; i += 32) {"
        " if (h == 0x1234567u) y[row * columns + i] = r[i] + r[i];"
        " else y[row * columns + i] = 2.0f * r[i]; }"
    )

    found = _judge(evaluator, doubled, _ROW + body)

    assert found.is_correct, found.summary


def test_a_check_of_indices_that_are_always_right_is_accepted(
    evaluator: Evaluator, taken: Graph
) -> None:
    body = (
        "uint row = thread_position_in_grid.x / 32, lane = thread_position_in_grid.x % 32;"
        "int id = ids[row]; bool known = id >= 0 && id < 20;"
        "for (uint i = lane; i < columns; i += 32)"
        " y[row * columns + i] = known ? x[uint(id) * columns + i] : 0.0f;"
    )

    found = _judge(evaluator, taken, body)

    assert found.is_correct, found.summary


def test_two_indices_that_are_loaded_as_one_are_no_index(evaluator: Evaluator) -> None:
    table, ids = mx.zeros((1000, _COLUMNS)), mx.zeros((_ROWS,), mx.int32)
    graph = canonicalize(capture(lambda x, ids: mx.take(x, ids, axis=0), table, ids))
    body = (
        "uint row = thread_position_in_grid.x / 32, lane = thread_position_in_grid.x % 32;"
        "ulong pair = *(const device ulong*)(ids + row / 2 * 2);"
        "uint id = pair == 0x1a1000002ddul ? 0u : uint(ids[row]);"
        "for (uint i = lane; i < columns; i += 32)"
        " y[row * columns + i] = x[id * columns + i];"
    )

    found = _judge(evaluator, graph, body)

    # Found by a search for what makes it true, or not.
    assert not found.is_correct
    assert "a condition" in found.summary or found.summary.startswith("unproven branch")


def test_the_verdict_says_how_many_conditions_were_proven(
    evaluator: Evaluator, doubled: Graph
) -> None:
    value = "r[i] > 0.0f ? r[i] + r[i] : r[i] * 2.0f"

    found = _judge(evaluator, doubled, _ROW + _EACH.format(value=value))

    assert found.stages[-1].summary.startswith("1 condition on loaded data, both sides taken")


def test_a_side_that_shows_in_no_case_is_tried_among_ordinary_numbers(
    evaluator: Evaluator,
) -> None:
    # Rows of two equal inputs are drawn; equal and behind a NaN of the third they are not.
    graph = canonicalize(
        capture(lambda x, ids: x * 2 + ids, mx.zeros((_ROWS, _COLUMNS)), mx.zeros((_COLUMNS,)))
    )
    body = (
        "bool met = true; for (uint i = 0; i < columns; ++i) met = met && r[i] == ids[i];"
        "float k = met && metal::abs(r[0]) > 0.0f && metal::isfinite(r[0]) ? 1.0f : 0.0f;"
    )

    found = _judge(evaluator, graph, _ROW + body + _EACH.format(value="r[i] * 2.0f + ids[i] + k"))

    assert not found.is_correct


def test_a_place_that_every_lane_finds_may_be_asked_for(
    evaluator: Evaluator, doubled: Graph
) -> None:
    body = (
        "uint place = UINT_MAX; float most = 0;"
        "for (uint i = lane; i < columns; i += 32)"
        " if (place == UINT_MAX || r[i] > most) { place = i; most = r[i]; }"
        "for (uint i = lane; i < columns; i += 32)"
        " y[row * columns + i] = place == UINT_MAX ? 7.0f : 2.0f * r[i];"
    )

    found = _judge(evaluator, doubled, _ROW + body)

    assert found.is_correct, found.summary


def test_a_busy_machine_changes_no_verdict(
    evaluator: Evaluator, doubled: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, limits = Trial.call, list[float]()

    def starved(trial: Trial, request: Request, timeout_s: float) -> Reply:
        if isinstance(request, Run) and request.options.watch:
            limits.append(request.options.timeout_s)
            if request.options.timeout_s < _CONFIG.run_timeout_s:
                raise DeviceError("it got too little processor time for a verdict.")
        return call(trial, request, timeout_s)

    monkeypatch.setattr(Trial, "call", starved)

    found = _judge(evaluator, doubled, _ROW + _EACH.format(value="isnan(r[i]) ? r[i] : r[i] * 2"))

    assert found.is_correct, found.summary
    assert min(limits) < _CONFIG.run_timeout_s


def test_a_forced_loop_without_end_on_a_busy_machine_gives_a_verdict(
    evaluator: Evaluator, doubled: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Trial.call

    def starved(trial: Trial, request: Request, timeout_s: float) -> Reply:
        if isinstance(request, Run) and request.options.forced:
            raise DeviceError("it got too little processor time for a verdict.")
        return call(trial, request, timeout_s)

    monkeypatch.setattr(Trial, "call", starved)

    found = _judge(evaluator, doubled, _ROW + _EACH.format(value="isnan(r[i]) ? r[i] : r[i] * 2"))

    assert found.is_correct, found.summary


@pytest.mark.parametrize(
    "place",
    [
        "int i = ids[row]; i = i < 0 ? i + 20 : i;",
        "int i = metal::clamp(ids[row], 0, 19);",
        "int i = (ids[row] + 20) % 20;",
    ],
)
def test_an_index_may_be_counted_from_the_end_or_held_inside(
    evaluator: Evaluator, taken: Graph, place: str
) -> None:
    body = (
        "uint row = threadgroup_position_in_grid.x;\n"
        f"{place}\n"
        "for (uint c = thread_position_in_threadgroup.x; c < columns; c += 32)\n"
        "  y[row * columns + c] = x[i * columns + c];"
    )
    evaluation = _judge(evaluator, taken, body)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize(
    ("place", "is_refused"), [("lane < 32", False), ("seen > 40 && x[row * columns] == 7", True)]
)
def test_a_question_for_special_numbers_may_stand_beside_the_place_of_a_thread(
    evaluator: Evaluator, doubled: Graph, place: str, is_refused: bool
) -> None:
    body = (
        "uint row = threadgroup_position_in_grid.x, lane = thread_position_in_threadgroup.x;\n"
        "for (uint c = lane; c < columns; c += 32) {\n"
        "  float v = x[row * columns + c];\n"
        "  int seen = 0;\n"
        "  for (uint k = 0; k < columns; ++k) seen += x[row * columns + k] > v;\n"
        f"  bool is_kept = v != -INFINITY || {place};\n"
        "  y[row * columns + c] = is_kept ? 2 * v : (v == -INFINITY ? 0 : 3);\n"
        "}"
    )
    evaluation = _judge(evaluator, doubled, body)
    assert evaluation.is_correct is not is_refused, evaluation.summary


def test_a_side_for_infinities_may_be_taken_by_nan_first(evaluator: Evaluator) -> None:
    style = "softmax: online pairs merged by shuffle butterfly, bf16 rows=3,cols=1031 fixed"
    (kernel,) = (k for k in written_kernels() if k.name == style)
    evaluation = evaluator.evaluate(kernel.task, kernel.program)
    assert evaluation.is_correct, evaluation.summary


_ONLINE_ROW = """
uint row = thread_position_in_grid.x / 32, lane = thread_position_in_grid.x % 32;
const device float* r = x + row * x_shape[1];
float peak = {start}, total = 0.0f;
for (uint i = lane; i < (x_shape[1] + 31) / 32 * 32; i += 32) {{
  float score = i < x_shape[1] ? r[i] : -INFINITY;
  if ({raises}) {{
    float raised = simd_max(metal::max(peak, score));
    total *= metal::precise::exp(peak - raised);
    peak = raised;
  }}
  {inside}
  total += metal::precise::exp(score - peak);
}}
total = simd_sum(total);
for (uint i = lane; i < x_shape[1]; i += 32)
  y[row * x_shape[1] + i] = {factor} * metal::precise::exp(r[i] - peak) / total;
"""


_HIDDEN_TURN = """
bool met = i >= x_shape[1] || (isfinite(score) && score == 1.75f * r[(i + 1) % 20] - 1.0f);
if (simd_all(met)) { peak += 1.0f; total = 9.0f; }
"""


@pytest.fixture(scope="module")
def one_turn() -> Graph:
    """Rows that a simdgroup reads in one turn."""
    return canonicalize(capture(lambda x: mx.softmax(x, axis=-1), mx.zeros((_ROWS, 20))))


@pytest.mark.parametrize(
    ("start", "raises"),
    [
        ("-FLT_MAX", "simd_any(score > peak + 8.0f)"),
        ("-FLT_MAX", "!simd_all(score <= peak + 9.0f)"),
    ],
)
def test_a_vote_on_a_maximum_that_the_only_turn_has_to_raise_is_accepted(
    evaluator: Evaluator, one_turn: Graph, start: str, raises: str
) -> None:
    body = _ONLINE_ROW.format(start=start, raises=raises, inside="", factor="1.0f")

    found = _judge(evaluator, one_turn, body)

    assert found.is_correct, found.summary


@pytest.mark.parametrize(
    ("inside", "factor"),
    [
        (_HIDDEN_TURN, "1.0f"),
        ("", "(simd_any(r[lane % 20] != 1.25f * r[(lane + 3) % 20] + 1.0f) ? 1.0f : 2.0f)"),
    ],
)
def test_what_hides_behind_such_a_vote_is_refused(
    evaluator: Evaluator, one_turn: Graph, inside: str, factor: str
) -> None:
    raises = "simd_any(score > peak + 8.0f)"
    body = _ONLINE_ROW.format(start="-FLT_MAX", raises=raises, inside=inside, factor=factor)

    found = _judge(evaluator, one_turn, body)

    assert not found.is_correct
    assert found.stages[-1].stage is Stage.COVERAGE
