"""What Metal takes and a front end without types finds hard, as kernels that must run."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.executable import Array
from kernelwright.metal.diagnostic import CompileError, LaunchError

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_SIGNATURE = """kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {"""
_THREADS = 64

Floats = npt.NDArray[np.float32]


def _run(text: str, name: str = "k", **more: int) -> Floats:
    """Launch a kernel plainly and sanitized, which must agree, and return what it wrote."""
    x = np.arange(1, _THREADS + 1, dtype=np.float32)
    written = []
    for sanitize in (False, True):
        y = np.full(_THREADS, np.nan, np.float32)
        outcome = simulator.compile(_HEAD + text).kernel(name).launch(
            {"x": x, "y": y}, grid=(_THREADS, 1, 1), threadgroup=(_THREADS, 1, 1),
            threadgroup_bytes={"s": more["s"]} if more else None, sanitize=sanitize,
        )  # fmt: skip
        assert outcome.reports == ()
        written.append(y)
    np.testing.assert_array_equal(written[0], written[1])
    return written[0]


# Statements, and what they leave in y for x of 1 to 64 and the thread's place from 0.
_BODIES: dict[str, tuple[str, Callable[[Floats, Floats], Floats | float]]] = {
    "products in an initialiser": (
        """
            float a = x[i], b = 2, c = 3; float d[3] = { a * b, c, d2(c) };
            y[i] = d[0] + d[1] + d[2];""",
        lambda x, i: x * 2 + 12,
    ),
    "products first in every list": (
        """
            float a = x[i], b = 2; float2 p[2] = { { a * b, b }, { a * a, a } };
            struct P { float u, v; } q = { a * b, b }; int n[] = { int(a) * 2 }; float e{ a * b };
            y[i] = p[0].x + p[1].x + q.u + n[0] + e;""",
        lambda x, i: x * 8 + x * x,
    ),
    "a masked value first in a list": (
        """
            uint a = i, b = 7; uint d[2] = { a & b, a }; y[i] = d[0] + d[1];""",
        lambda x, i: i % 8 + i,
    ),
    "scalars of the namespace": (
        """
            metal::uint a = metal::uint(x[i]); metal::int b = static_cast<metal::int>(a) - 100;
            const metal::float c = metal::float(b); metal::bool d = c < 0; metal::uchar e = 200;
            metal::uint64_t f = 1; metal::size_t g = sizeof(metal::half); ::metal::ushort h = 1;
            y[i] = c + d + e + f + g + h;""",
        lambda x, i: x - 100 + (x < 100) + 200 + 1 + 2 + 1,
    ),
    "assert": (
        """
            assert(i < 64 && "in range"); assert(x[100000] > 0); y[i] = 1;""",
        lambda x, i: 1,
    ),
    "lambdas": (
        """
            auto twice = [](float a) { return a * 2; }; float sum = 1;
            auto add = [&](float a) { sum += a; return sum; }; auto first = [=](int n) -> float {
            return x[n]; }; add(x[i]); y[i] = twice(x[i]) + add(first(0));""",
        lambda x, i: 2 * x + x + 2,
    ),
    "a lambda that waits": (
        """
            threadgroup float s[64];
            auto sync = [] { threadgroup_barrier(mem_flags::mem_threadgroup);
            }; s[i] = x[i]; sync(); y[i] = s[63 - i] + simd_sum(0.0f);""",
        lambda x, i: x[::-1],
    ),
    "atomics in three dimensions": (
        """
            threadgroup atomic_uint n[2][4][2]; if (i < 16)
            atomic_store_explicit(&n[i / 8][i / 2 % 4][i % 2], 0u, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            atomic_fetch_add_explicit(&n[i % 2][i / 2 % 4][1], i, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = atomic_load_explicit(&n[i % 2][i / 2 % 4][1], memory_order_relaxed);""",
        lambda x, i: 8 * (i % 8) + 8 * 28,
    ),
    "matrices stored at an element": (
        """
            threadgroup float t[8][24]; simdgroup_float8x8 m; simdgroup_load(m, &x[0], 8);
            simdgroup_store(m, &t[0][8], 24); simdgroup_barrier(mem_flags::mem_threadgroup);
            if (i < 32) simdgroup_load(m, &t[0][8], 24); threadgroup_barrier(mem_flags::mem_none);
            if (i < 32) simdgroup_store(m, &y[0], 8);""",
        lambda x, i: x,
    ),
    "addresses in constant memory": (
        """
            constant float* p = &table[i % 4]; constant float* q = grid[i % 2];
            constant S* s = &ss[1];
            constant S& r = ss[i % 2]; const constant float* e = table + 1;
            y[i] = p[0] + q[1] + s->a + r.b + e[i % 2];""",
        lambda x, i: (i % 4 + 1) + (i % 2 * 2 + 2) + 5 + (6 + i % 2 * 2 - 2) + (2 + i % 2),
    ),
    "elements of a vector": (
        """
            constexpr int n = vec_elements<float4>::value; array<float, vec_elements_v<half3>> a;
            static_assert(metal::vec_elements<float>::value == 1, ""); y[i] = n + a.size();""",
        lambda x, i: 7,
    ),
    "limits of vectors": (
        """
            y[i] = all(numeric_limits<float4>::max() == FLT_MAX)
            + isinf(numeric_limits<half2>::infinity().y)
            + (numeric_limits<int3>::lowest().z == INT_MIN)
            + (numeric_limits<uint2>::max().x == UINT_MAX)
            + numeric_limits<float4>::is_signed + (numeric_limits<bfloat2>::epsilon().x > 0);""",
        lambda x, i: 6,
    ),
    "coherent": (
        """
            coherent device float* p = y; device coherent(device) float* q = y;
            volatile coherent(system)
            device float* r = y; float coherent = 1; p[i] = x[i]; q[i] += coherent; r[i] += 1;""",
        lambda x, i: x + 2,
    ),
    "a conditional without a middle": (
        "y[i] = (uint(x[i]) & 4u) ?: 9u;",
        lambda x, i: np.where(x.astype(np.uint32) & 4, 4, 9),
    ),
    "a chained comparison": (
        "int a = i, b = 2, c = 0; y[i] = a<b>c;",
        lambda x, i: (i < 2).astype(np.float32),
    ),
    "macros for qualifiers": (
        """
            LOCAL float s[2][32]; GLOBAL float* p = y; s[i / 32][lane] = x[i];
            p[i] = s[i / 32][lane];""",
        lambda x, i: x,
    ),
    "default arguments in braces": (
        "y[i] = shifted(x[i]) + shifted(x[i], {1});",
        lambda x, i: 2 * x + 1,
    ),
    "constant packed vectors": (
        "y[i] = corners[i % 2].z + x[i] * corners[1][0];",
        lambda x, i: np.where(i % 2, 6, 3) + 4 * x,
    ),
    "a list for a class with a defaulted constructor": (
        """
            threadgroup Ranked<float> s[64]; s[i] = Ranked<float>{i, x[i]};
            Ranked<float> worst = numeric_limits<Ranked<float>>::lowest();
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = s[63 - i].value + worst.at + Pair{1, 2}.b;""",
        lambda x, i: 64 - i + 7 + 2,
    ),
    "an attribute behind a declarator": (
        """
            threadgroup float s[64] __attribute__((aligned(16))); s[i] = x[i];
            float own[2] __attribute__((aligned(8))) = {x[i], 1}; int k __attribute__((unused)) = 0;
            threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[63 - i] + own[1];""",
        lambda x, i: 64 - i + 1,
    ),
    "arrays and pointers in one declaration": (
        """
            threadgroup float a[32], *p = a, *q, b[2][32]; float threadgroup *r, c;
            if (i == 0) c = 5;
            q = b[0]; q[i] = x[i]; p[lane] = i % 32;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            r = &c; y[i] = q[63 - i] + a[31 - lane] + *r;""",
        lambda x, i: 64 - i + 31 - i % 32 + 5,
    ),
    "a pointer that all threads share": (
        """
            threadgroup float a[2][64]; threadgroup float* threadgroup p, *threadgroup q;
            const device float* threadgroup from; if (i == 0) { p = a[1]; q = a[0]; from = x; }
            threadgroup_barrier(mem_flags::mem_threadgroup); p[i] = from[i]; q[i] = 1;
            threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = a[1][63 - i] + q[i];""",
        lambda x, i: x[::-1] + 1,
    ),
    "every form of threadgroup variable": (
        """
            threadgroup vec<float, 4> s[1 << 4], t; alignas(16) threadgroup half h[64];
            volatile threadgroup int n[2]; threadgroup struct { float a; int b[3]; } q;
            threadgroup float (*rows)[16] = (threadgroup float (*)[16])s;
            if (i == 0) { t = 1; n[1] = 2; q.b[2] = 3; }
            h[i] = x[i]; rows[i / 16][i % 16] = i; threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = h[63 - i] + t.w + n[1] + q.b[2] + s[i / 4][i % 4];""",
        lambda x, i: 64 - i + 6 + i,
    ),
    "packed structs of vectors": (
        """
            static_assert(sizeof(Vertex) == 22, ""); Vertex v = { 1, 2, 3, packed_uchar3(1, 2, 3) };
            v.pos.y += x[i]; y[i] = float3(v.pos).y + v.rgb[2] + sizeof(v);""",
        lambda x, i: x + 1 + 3 + 22,
    ),
    "elements of constant arrays by reference": (
        """
            int s = 0; for (constant int2& d : steps) s += d.x * 10 + d.y;
            constant int2& last = steps.back(); constant int2* p = steps.data();
            thread array<float, 2> own = { x[i], 2 }; own[0] += s + last.y + p[0].x;
            for (thread float& v : own) v *= 2; y[i] = own[0] + own.at(1);""",
        lambda x, i: 2 * (x + 46 + 4 + 1) + 4,
    ),
    "a static table that is declared once more": (
        """
            y[i] = Table<float>::values[i & 3];""",
        lambda x, i: i % 4 * 2,
    ),
}  # fmt: skip
_DECLARED = """
#define LOCAL threadgroup
#define GLOBAL device
struct Offset { float by = 0; };
float shifted(float a, Offset o = {}) { return a + o.by; }
float d2(float a) { return a * a; }
struct S { float a; float b; };
template <typename T> struct Ranked {
  uint at; T value;
  constexpr Ranked<T>() threadgroup = default;
};
template <typename T> struct _numeric_limits_impl<Ranked<T>> {
  static constexpr Ranked<T> lowest() { return {7, numeric_limits<T>::lowest()}; }
};
struct Pair { int a, b; Pair() = default; Pair() threadgroup = default; };
struct __attribute__((packed)) Vertex {
  packed_float3 pos; packed_half3 normal; uchar flags; packed_uchar3 rgb;
};
constant array<int2, 2> steps = {int2(1, 2), int2(3, 4)};
template <typename T> struct Table { static constexpr constant T values[4] = {0, 2, 4, 6}; };
template <typename T> constexpr constant T Table<T>::values[];
constant float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
constant float grid[2][2] = {{1, 2}, {3, 4}};
constant packed_float3 corners[2] = {packed_float3(1, 2, 3), {4, 5, 6}};
constant S ss[2] = {{3, 4}, {5, 6}};
"""


@pytest.mark.parametrize("cause", _BODIES)
def test_it_compiles_and_runs(cause: str) -> None:
    body, expected = _BODIES[cause]
    y = _run(f"{_DECLARED}{_SIGNATURE}\n{body} }}")
    x = np.arange(1, _THREADS + 1, dtype=np.float32)
    np.testing.assert_array_equal(y, np.broadcast_to(expected(x, x - 1), y.shape))


_REVERSE = """
template <typename T> [[kernel]] void reverse(const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]], threadgroup T* s [[threadgroup(0)]],
    uint i [[thread_position_in_threadgroup]]) {
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s[63 - i];
}
template [[host_name("reverse_half")]] [[kernel]] void reverse<half>(
    const device half* x [[buffer(0)]], device half* y [[buffer(1)]],
    threadgroup half* s [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]]);
template [[host_name("reverse_float")]] kernel void reverse<float>(
    const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    threadgroup float* s [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]]);
"""


def test_an_instantiation_repeats_the_signature_with_its_attributes() -> None:
    y = _run(_REVERSE, "reverse_float", s=256)
    np.testing.assert_array_equal(y, np.arange(64, 0, -1))


_MIXED = """
template <typename T, typename U, int N = 2>
kernel void mixed(const device T* x, device vec<U, N>* y, constant T& step,
                  uint i [[thread_position_in_grid]]) {
  y[i] = vec<U, N>(U(x[i] * step), U(i));
}
"""


@pytest.mark.parametrize(
    "instantiation",
    [
        "kernel void mixed(\n  const device float*, device vec<half, 2>*, constant float&, uint);",
        (
            "kernel void mixed<float>(device const float* x, device vec<half, 2>* y,\n"
            "  constant float& s, uint i);"
        ),
        "kernel void mixed(device const T*, device vec<half, 2>*, constant T&, uint);",
    ],
)
def test_an_instantiation_may_leave_its_template_arguments_to_its_types(
    instantiation: str,
) -> None:
    text = f'template [[host_name("k")]] {instantiation}'
    if "T" in instantiation:
        text = f"#define K(T) {text}\nK(float)"
    kernel = simulator.compile(_HEAD + _MIXED + text).kernel("k")
    x, y = np.arange(4, dtype=np.float32), np.zeros((4, 2), np.float16)
    kernel.launch([x, y, np.float32(3)], grid=(4, 1, 1), threadgroup=(4, 1, 1))
    np.testing.assert_array_equal(y, np.stack([3 * x, x], axis=1))


@pytest.mark.parametrize("rest", [";", "(device float* y, uint);"])
def test_two_brackets_at_once_close_an_instantiations_arguments(rest: str) -> None:
    text = """
template <typename T> struct Twice { T of(T a) { return 2 * a; } };
template <typename O> kernel void apply(device float* y, uint i [[thread_position_in_grid]]) {
  O o; y[i] = o.of(float(i));
}
"""
    head = "decltype(apply<Twice<float>>)" if rest == ";" else "void"
    text += f'template [[host_name("k")]] kernel {head} apply<Twice<float>>{rest}'
    y = np.zeros(4, np.float32)
    simulator.compile(_HEAD + text).kernel("k").launch([y], grid=(4, 1, 1), threadgroup=(4, 1, 1))
    np.testing.assert_array_equal(y, [0, 2, 4, 6])


def test_an_instantiation_of_no_such_template_is_refused() -> None:
    text = 'template [[host_name("k")]] kernel void mixed(device half*, uint);'
    with pytest.raises(CompileError, match="'mixed' does not refer to a function template"):
        simulator.compile(_HEAD + _MIXED + text)


def test_threadgroup_arguments_need_no_attribute() -> None:
    text = _SIGNATURE.replace("uint lane [[thread_index_in_simdgroup]]", "threadgroup float* s")
    body = "s[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[63 - i]; }"
    np.testing.assert_array_equal(_run(text + body, s=256), np.arange(64, 0, -1))


@pytest.mark.parametrize(
    "text",
    [
        "void f() { float a, b; a * b; { float *p = 0; } }",
        "void f() { if (true) { float* p = nullptr; } }",
        "struct S { float* p; };",
    ],
)
def test_pointers_in_statements_still_need_their_memory(text: str) -> None:
    with pytest.raises(CompileError, match="pointer type must have explicit address space"):
        simulator.compile(_HEAD + text)


@pytest.mark.parametrize("place", ["{}", "if (i > 4096) {{ {} }}"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_too_much_threadgroup_memory_is_a_fault_of_the_launch(place: str, sanitize: bool) -> None:
    body = place.format("threadgroup float a[8192], b[2048]; a[i] = b[i] = x[i]; y[i] = a[i];")
    kernel = simulator.compile(f"{_HEAD}{_SIGNATURE} {body} }}").kernel("k")
    arrays: dict[int | str, Array] = {"x": np.zeros(64, np.float32), "y": np.zeros(64, np.float32)}
    with pytest.raises(LaunchError, match="needs 40960 bytes, this device has 32768"):
        kernel.launch(dict(arrays), grid=(64, 1, 1), threadgroup=(64, 1, 1), sanitize=sanitize)


_ELEMENTS = {
    "thread float* p = &v.x; *p = 2;": "address of vector element requested",
    "thread float* p = &v[1]; *p = 2;": "address of vector element requested",
    "device float* p = &((device float4*)y)->z; *p = 2;": "address of vector element requested",
    "thread float& p = v.y; p = 2;": "non-const reference cannot bind to vector element",
    "thread float& p = (v[2]); p = 2;": "non-const reference cannot bind to vector element",
    "set(v.z);": "non-const reference cannot bind to vector element",
    "set(v[i % 4]);": "non-const reference cannot bind to vector element",
}


@pytest.mark.parametrize("statement", _ELEMENTS)
def test_an_element_of_a_vector_has_no_address(statement: str) -> None:
    before = "void set(thread float& p) { p = 1; }\n"
    with pytest.raises(CompileError, match=_ELEMENTS[statement]):
        simulator.compile(
            f"{_HEAD}{before}{_SIGNATURE} float4 v = x[i]; {statement} y[i] = v.x; }}"
        )


def test_elements_of_vectors_are_read_written_and_seen_as_constants() -> None:
    y = _run(
        f"""float twice(const thread float& p) {{ return 2 * p; }} float half_of(float p) {{
        return p / 2; }} struct S {{ float4 v; float x; }}; void set(thread float& p) {{ p = 1; }}
        {_SIGNATURE} float4 v = x[i]; const float2 w = v.xy; v.x += 1;
        v[1] *= 2; v.z++;
        y[i] = twice(w.x) + twice(w[1]); const thread float& r = v.w;
        S s; set(s.x); float4x4 m(1); thread float4& c = m[1]; c.y = 3; thread float4* p = &m[2];
        (*p)[0] = 4; float e[2] = {{ v.x, v[1] }}; thread float* q = &e[1]; *q += 1;
        y[i] = twice(v.x) + half_of(v[1]) + max(v.z, v[3]) + r + s.x + m[1].y + m[2].x + e[1]; }}"""
    )
    x = np.arange(1, _THREADS + 1, dtype=np.float32)
    expected = 2 * (x + 1) + x + (x + 1) + x + 1 + 3 + 4 + (2 * x + 1)
    np.testing.assert_array_equal(y, expected)


def test_a_kernel_calls_no_kernel() -> None:
    other = "kernel void other(device float* y [[buffer(0)]]) { y[0] = 1; }\n"
    with pytest.raises(CompileError, match="kernel function 'other' cannot be called"):
        simulator.compile(f"{_HEAD}{other}{_SIGNATURE} other(y); }}")


def test_a_kernel_may_have_the_name_of_a_function() -> None:
    y = _run(f"{_SIGNATURE.replace(' k(', ' fma(')} y[i] = fma(x[i], 2.0f, 1.0f); }}", "fma")
    np.testing.assert_array_equal(y, np.arange(1, _THREADS + 1, dtype=np.float32) * 2 + 1)


def test_there_are_no_numbers_of_128_bits() -> None:
    with pytest.raises(CompileError, match="'__int128' is not supported in Metal"):
        simulator.compile(f"{_HEAD}{_SIGNATURE} __int128 a = i; y[i] = a; }}")


_NOT_ASSIGNABLE = "expression is not assignable"
_PAST_METAL = {
    "float2(1) = float2(2);": _NOT_ASSIGNABLE,
    "(float2(1)) += 2;": _NOT_ASSIGNABLE,
    "++int2(1);": _NOT_ASSIGNABLE,
    "int2(1)--;": _NOT_ASSIGNABLE,
    "float4(1)[0] = 2;": _NOT_ASSIGNABLE,
    "float2x2(1) *= 2;": _NOT_ASSIGNABLE,
    "packed_float3(1) = packed_float3(2);": _NOT_ASSIGNABLE,
    "bfloat(1) = bfloat(2);": _NOT_ASSIGNABLE,
    "(float2(x[i]) + float2(1)) = float2(2);": _NOT_ASSIGNABLE,
    "pair() = float2(2);": _NOT_ASSIGNABLE,
    "y[i] = Own{1}.get();": "explicit object parameters are not supported in Metal",
    "y[i] = of_class<Own{3}>();": "a non-type template parameter cannot have type 'Own'",
    "y[i] = of_float<3.0f>();": "a non-type template parameter cannot have type 'float'",
}
_OF_LATER = {
    "get": "struct Own { int a; int get(this const Own& self) { return self.a; } };",
    "of_class": "struct Own { int a; }; template <Own p> int of_class() { return p.a; }",
    "of_float": "template <float p> float of_float() { return p; }",
    "pair": "float2 pair() { return 1; }",
}


@pytest.mark.parametrize("statement", _PAST_METAL)
def test_what_later_versions_of_cpp_and_classes_for_vectors_would_take(statement: str) -> None:
    before = "".join(text for name, text in _OF_LATER.items() if f"{name}" in statement)
    with pytest.raises(CompileError, match=_PAST_METAL[statement]):
        simulator.compile(f"{_HEAD}{before}\n{_SIGNATURE} {statement} y[i] = 1; }}")


def test_places_and_objects_of_a_texts_own_are_assigned_to() -> None:
    y = _run(
        f"""struct S {{ float v; }}; thread float2& same(thread float2& v) {{ return v; }}
        enum class E {{ A, B }}; template <int N, E e> int sum() {{ return N + (int)e; }}
        {_SIGNATURE} float2 a(1), b; b = a = float2(2); (a += b) *= 2; same(a) = a + 1;
        S{{1}} = S{{2}}; float2x2 m(1); m[0] = a; m[0][1]++; packed_float3 p(1); p += float3(1);
        y[i] = a.x + m[0].y + p.z + sum<3, E::B>(); }}"""
    )
    np.testing.assert_array_equal(y, np.full(64, 9 + 10 + 2 + 4, np.float32))


@pytest.mark.parametrize(
    "declaration",
    [
        "[[function_constant(0)]] constant float scale;",
        "[[function_constant(0)]] static constant float scale;",
        "[[maybe_unused, function_constant(0)]] const constant float scale;",
        "constant float scale [[function_constant(0)]];",
    ],
)
def test_a_function_constant_says_so_before_or_behind_its_declaration(declaration: str) -> None:
    text = f"{_HEAD}{declaration}{_SIGNATURE} y[i] = scale * x[i]; }}"
    kernel = simulator.compile(text).kernel("k", constants={0: 3.0})
    x, y = np.arange(_THREADS, dtype=np.float32), np.zeros(_THREADS, np.float32)

    kernel.launch({"x": x, "y": y}, grid=(64, 1, 1), threadgroup=(64, 1, 1))

    np.testing.assert_array_equal(y, 3 * x)


def test_templates_are_overloaded_by_address_space() -> None:
    text = (
        """
template <typename T> float of(threadgroup const T* p) { return p[0]; }
template <typename T> float of(device const T* p) { return 2 * p[0]; }
template <typename T> float of(thread T* p) { return 4 * p[0]; }
template <typename T, typename U> float sum(const threadgroup T& a, U b) { return a + b; }
template <typename T, typename U> float sum(thread const T& a, U b) { return a * b; }
"""
        + _SIGNATURE
        + """
  threadgroup float t[64]; float own = x[i]; t[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  device float* out = y + i; *out = 1;
  y[i] = of(&t[i]) + of(&x[i]) + of(out) + of(&own) + sum(t[i], 3) + sum(own, 2.0f); }"""
    )
    x = np.arange(1, _THREADS + 1)
    np.testing.assert_array_equal(_run(text), x + 2 * x + 2 + 4 * x + x + 3 + 2 * x)
