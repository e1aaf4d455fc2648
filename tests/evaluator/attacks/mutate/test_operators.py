"""Each mutation operator makes the mistake that it is named for, and no other."""

import pytest

from kernelwright.evaluator.attacks.corpus import bases
from kernelwright.evaluator.attacks.mutate.catalog import (
    GROUPS,
    LAUNCH_OPERATORS,
    TEXT_OPERATORS,
    mutants_of,
)
from kernelwright.evaluator.attacks.mutate.text import MetalText

_OPERATORS = {operator.name: operator for operator in TEXT_OPERATORS}
_LOOP = "for (uint i = lane; i < columns; i += 32) { total += x[row * columns + i]; }"
_MASK = "float v = i <= place ? x[i] : -INFINITY;"
_SUM = "float total = 0.0f; total += a * b + 1e-5f;"
_BARRIER = "shared[t] = v; threadgroup_barrier(mem_flags::mem_threadgroup); v = shared[0];"


def _made(name: str, source: str) -> list[str]:
    inputs = (("x", "f32[8]"), ("w", "f32[8]"), ("n", "i32[1]"))
    return [m.source for m in _OPERATORS[name].mutants(MetalText(source, inputs, ("out",)))]


@pytest.mark.parametrize(
    ("name", "source", "mutant"),
    [
        ("loop bound inclusive", _LOOP, _LOOP.replace("<", "<=")),
        ("loop bound moved", _LOOP, _LOOP.replace("i < columns", "i < (columns - 1)")),
        ("loop start moved", _LOOP, _LOOP.replace("= lane", "= lane + 1")),
        ("step changed", _LOOP, _LOOP.replace("i += 32", "i += (32) * 2")),
        ("step changed", "for (int k = 0; k < 4; ++k) {}", "for (int k = 0; k < 4; k += 2) {}"),
        ("last tile dropped", _LOOP, _LOOP.replace("i < columns", "i < (columns - (32))")),
        ("tail rounded down", _LOOP, _LOOP.replace("i < columns", "i < (columns / 4 * 4)")),
        ("guard inclusive", "if (i < n) out[i] = 1;", "if (i <= n) out[i] = 1;"),
        ("guard moved", "if (i < n) out[i] = 1;", "if (i < (n + 1)) out[i] = 1;"),
        ("guard dropped", "if (i < n) out[i] = 1;", "if (true) out[i] = 1;"),
        ("branch never taken", "if (i < n) out[i] = 1;", "if (false) out[i] = 1;"),
        ("clause dropped", "if (i < n && j < m) {}", "if (j < m) {}"),
        ("stride off by one", _LOOP, _LOOP.replace("row * columns", "row * (columns + 1)")),
        ("stride dropped", _LOOP, _LOOP.replace("row * columns", "row")),
        ("dimensions swapped", _LOOP, _LOOP.replace("row * columns + i", "i * columns + row")),
        ("offset moved", _LOOP, _LOOP.replace("+ i]", "+ i - 1]")),
        ("offset dropped", "auto r = x + row * n;", "auto r = x;"),
        ("index made constant", _LOOP, _LOOP.replace("row * columns + i]", "0]")),
        ("base moved", "auto r = x + row * n;", "auto r = x + 1 + row * n;"),
        ("integer type changed", "uint i = 0;", "ushort i = 0;"),
        ("quotient rounded up", "uint q = i / 4;", "uint q = ((i + 4 - 1) / 4);"),
        ("remainder for quotient", "uint q = i / 4;", "uint q = i % 4;"),
        ("bits moved", "uint q = w >> 4;", "uint q = w >> (4 - 1);"),
        ("bits moved", "uint q = b & 15;", "uint q = b & (15 >> 1);"),
        ("operands swapped", "v = a - b;", "v = ((b) - (a));"),
        ("operands swapped", "v = metal::pow(a, b);", "v = metal::pow(b, a);"),
        ("sign changed", "v = metal::exp(-x[0]);", "v = metal::exp(x[0]);"),
        ("product for quotient", "v = a / b;", "v = a * b;"),
        ("term dropped", "v = a + bias;", "v = a;"),
        ("term dropped", "v = a - bias;", "v = (-(bias));"),
        ("factor dropped", "v = a * scale * w;", "v = a * w;"),
        ("fused term dropped", "v = metal::fma(a, b, c);", "v = ((a) * (b));"),
        ("constant scaled", "v = 2.5f * a;", "v = 2.525f * a;"),
        ("constant scaled", "v = 2.5f * a;", "v = (-2.5f) * a;"),
        ("last digit changed", "v = 0.7978845f * a;", "v = 0.7978848f * a;"),
        ("whole constant moved", "v = x[3];", "v = x[2];"),
        ("other function", "v = metal::max(a, b);", "v = metal::min(a, b);"),
        ("other function", "v = metal::abs(a);", "v = (a);"),
        ("clamp dropped", "v = metal::max(a, 1);", "v = (a);"),
        ("fast function", "v = metal::precise::exp(a);", "v = metal::fast::exp(a);"),
        ("approximated function", "v = metal::exp(a);", "v = metal::exp2(1.4427f * float(a));"),
        ("initial value changed", _SUM, _SUM.replace("0.0f", "1.0f")),
        (
            "never reset",
            "for (int r = 0; r < 2; ++r) { float s = 0; s += x[r]; }",
            "float s = 0; for (int r = 0; r < 2; ++r) {  s += x[r]; }",
        ),
        ("accumulation replaced", _SUM, _SUM.replace("+=", "=")),
        (
            "maximum for sum",
            "total += v;",
            "total = metal::max(float(total), float(v));",
        ),
        ("narrow accumulator", _SUM, _SUM.replace("float total", "half total")),
        ("narrow memory", "threadgroup float s[32];", "threadgroup half s[32];"),
        ("sentinel changed", _MASK, _MASK.replace("INFINITY", "1e9f")),
        ("sentinel changed", "float s = -1e9f;", "float s = -INFINITY;"),
        ("rounded on the way", "float v = a * b;", "float v = float(half(a * b));"),
        (
            "truncated",
            "out[0] = half(v);",
            "out[0] = half(as_type<float>(as_type<uint>(float(v)) & 0xFFFFE000u));",
        ),
        ("cast changed", "v = float(x[0]);", "v = float(int(x[0]));"),
        ("uninitialised", "float s = 0.0f; s += 1;", "float s; s += 1;"),
        ("tie the other way", _MASK, _MASK.replace("<=", "<")),
        ("mask moved", _MASK, _MASK.replace("place ?", "(place + 1) ?")),
        ("condition inverted", _MASK, _MASK.replace("i <= place", "!(i <= place)")),
        ("choice made", _MASK, "float v = (x[i]);"),
        ("or for and", "if (a && b) {}", "if (a || b) {}"),
        ("equality changed", "if (lane == 0) {}", "if (lane != 0) {}"),
        ("NaN guard dropped", "v = metal::isnan(a) ? a : b;", "v = false ? a : b;"),
        ("barrier dropped", _BARRIER, "shared[t] = v;  v = shared[0];"),
        (
            "barrier moved",
            _BARRIER,
            "shared[t] = v; v = shared[0]; threadgroup_barrier(mem_flags::mem_threadgroup);",
        ),
        ("barrier scope", _BARRIER, _BARRIER.replace("mem_threadgroup", "mem_none")),
        (
            "early return",
            _BARRIER,
            _BARRIER.replace(
                "threadgroup_b", "if (thread_index_in_simdgroup >= 16) return; threadgroup_b"
            ),
        ),
        ("reduction changed", "v = simd_sum(v);", "v = simd_max(v);"),
        ("reduction dropped", "v = metal::simd_sum(v);", "v = (v);"),
        ("shuffle changed", "v += simd_shuffle_xor(v, 8);", "v += simd_shuffle_xor(v, (8) / 2);"),
        ("half a simdgroup", "i += 32u;", "i += 16u;"),
        (
            "other attribute",
            "uint i = thread_position_in_grid.x;",
            "uint i = thread_position_in_threadgroup.x;",
        ),
        (
            "other attribute",
            "uint i = thread_position_in_grid.x;",
            "uint i = thread_position_in_grid.y;",
        ),
        (
            "store skipped",
            "out[i] = v;",
            "if (thread_index_in_simdgroup != 31) out[i] = v;",
        ),
        (
            "atomic made plain",
            "atomic_fetch_add_explicit(&out[i], v, o);",
            "atomic_store_explicit(&out[i], atomic_load_explicit(&out[i], o) + v, o);",
        ),
        ("statement dropped", "v = 1; v *= 2;", "v = 1; ;"),
        ("statement repeated", "v += a;", "v += a; v += a;"),
        ("wrong input", "v = x[0];", "v = w[0];"),
        (
            "wrong local",
            "uint a = 1; uint b = 2; out[b] = 1;",
            "uint a = 1; uint b = 2; out[a] = 1;",
        ),
    ],
)
def test_an_operator_makes_its_mistake(name: str, source: str, mutant: str) -> None:
    assert mutant in _made(name, source)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("loop bound inclusive", "auto v = load<float>(x); if (a < b) {}"),
        ("factor dropped", "const device float* y = x;"),
        ("statement dropped", "float v = 1;"),
        ("wrong input", "v = n[0];"),
        ("term dropped", "out[i + 1] = 0;"),
        ("store skipped", "float out_run[4]; out_run[1] = 0;"),
    ],
)
def test_an_operator_leaves_other_code_alone(name: str, source: str) -> None:
    assert _made(name, source) == []


def test_every_operator_has_an_example_in_these_tests() -> None:
    tested = next(
        mark.args[1]
        for mark in test_an_operator_makes_its_mistake.pytestmark  # type: ignore[attr-defined]
    )
    assert {example[0] for example in tested} == set(_OPERATORS)


def test_there_are_many_operators_of_all_groups_with_names_of_their_own() -> None:
    assert len(GROUPS) == len(TEXT_OPERATORS) + len(LAUNCH_OPERATORS) >= 70
    assert len(set(GROUPS.values())) >= 15


def test_mutants_are_other_programs_and_the_same_each_time() -> None:
    program = bases()["layer_norm"].program
    made = list(mutants_of(program))
    assert len(made) > 100
    assert all(mutant.program != program for mutant in made)
    assert len({mutant.id for mutant in made}) == len(made)
    assert [m.id for m in made] == [m.id for m in mutants_of(program)]


def test_a_mutant_says_what_changed_and_where() -> None:
    source = "float s = 0;\nfor (int i = 0; i < 4; ++i) {\n  s += x[i];\n}\n"
    found = next(_OPERATORS["loop bound inclusive"].mutants(MetalText(source)))
    assert (found.line, found.before) == (2, "for (int i = 0; i < 4; ++i) {")
    assert found.after == "for (int i = 0; i <= 4; ++i) {"


def test_launch_operators_change_the_launch_alone() -> None:
    program = bases()["rotate"].program
    launches = [m for m in mutants_of(program) if m.file == "launch"]
    changed = {m.operator for m in launches}
    assert {"grid short", "grid long", "threadgroup changed", "option changed"} <= changed
    grids = [m for m in launches if m.operator.startswith("grid")]
    assert all(m.program.kernels[0].source == program.kernels[0].source for m in grids)
