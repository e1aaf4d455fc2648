"""What clang takes and a Metal kernel may not hold: refused at its line, by structure."""

import pytest

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.simulator.address_rules import CAST, COMPARED, REINTERPRETED, UNION
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.diagnostic import CompileError, Diagnostic
from kernelwright.metal.kernel import Kernel, Program, Tensor

TYPE = TensorType((64, 128), Dtype.FLOAT32)
PLACE = "uint i = thread_position_in_grid.x;\n"
VALUE = "float f(float a) { return a + 1; }\n"
FUNCTION = "function pointers are not supported in Metal"
SHARED_FLOAT = (
    "atomic_float in threadgroup memory is not supported in Metal 4.0; Metal 4.1 brought it"
)
ORDER = "atomic operations take memory_order_relaxed only"
CONSTANT = "a variable in constant address space must be initialized by a constant expression"


def refused(body: str, header: str = "") -> tuple[Diagnostic, ...]:
    """Compile a kernel of two inputs; return why it is refused, nothing where it is not."""
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=TYPE.shape)
    w, y = (x.model_copy(update={"name": name}) for name in "wy")
    kernel = Kernel(
        name="k",
        inputs=("x", "w"),
        outputs=("y",),
        header=header,
        source=PLACE + body,
        grid=(64 * 32, 1, 1),
        threadgroup=(32, 1, 1),
    )
    program = Program(inputs=(x, w), outputs=(y,), kernels=(kernel,))
    try:
        SimulatorDevice().compile(program.bind((TYPE, TYPE)))
    except CompileError as e:
        return e.diagnostics
    return ()


ADDRESSES = {
    "cast": ("y[i] = (ulong)x & 255;", "", CAST),
    "named cast": ("y[i] = reinterpret_cast<uintptr_t>(w) & 255;", "", CAST),
    "functional cast": ("y[i] = ulong(x) & 255;", "", CAST),
    "number to pointer": ("y[i] = *(const device float*)ulong(i);", "", CAST),
    "threadgroup memory": ("threadgroup float s[4]; y[i] = (ulong)&s[0];", "", CAST),
    "thread memory": ("float s[4]; y[i] = (ulong)&s[0] & 15;", "", CAST),
    "in a template": (
        "y[i] = to<ulong>(x) & 255;",
        "template <typename T, typename P> T to(P p) { return (T)p; }",
        CAST,
    ),
    "order": ("y[i] = (const device float*)y > x;", "", COMPARED),
    "distance": ("y[i] = float(y - x);", "", COMPARED),
    "distance as an index": ("y[i] = x[(y - x) + i];", "", COMPARED),
    "identity": ("const device float* a = x; y[i] = a == y;", "", COMPARED),
    "order of variables": (
        "const device float* a = x; const device float* b = w; y[i] = a < b;",
        "",
        COMPARED,
    ),
    "order of one variable's values": (
        "auto a = x; auto b = a; a = i > 4 ? w : x; y[i] = a - b;",
        "",
        COMPARED,
    ),
    "order of an array's elements": (
        "const device float* a[2] = {x, w}; y[i] = a[i & 1] < a[0];",
        "",
        COMPARED,
    ),
    "order of members": (
        "P a{x}, b{w}; y[i] = a.p < b.p;",
        "struct P { const device float* p; };",
        COMPARED,
    ),
    "order in a function": (
        "y[i] = less(x, y);",
        "bool less(const device float* a, const device float* b) { return a < b; }",
        COMPARED,
    ),
    "order in a function of its own": (
        "y[i] = less(x, y);",
        ("__attribute__((noinline)) bool less(const device float* a, const device float* b) "
        "{ return a < b; }"),
        COMPARED,
    ),
    "pointer read as a number": (
        "auto p = x; y[i] = *reinterpret_cast<thread ulong*>(&p) & 255;",
        "",
        REINTERPRETED,
    ),
    "pointer read by way of void": (
        "auto p = x; y[i] = *(thread uchar*)(thread void*)&p;",
        "",
        REINTERPRETED,
    ),
    "reference": (
        "auto p = x; y[i] = reinterpret_cast<thread ulong&>(p) & 255;",
        "",
        REINTERPRETED,
    ),
    "struct read as a number": (
        "S s; s.p = x; y[i] = *(thread uint*)&s;",
        "struct S { const device float* p; };",
        REINTERPRETED,
    ),
    "derived struct read as a number": (
        "T t; t.p = x; y[i] = *(thread uint*)&t;",
        "struct S { const device float* p; }; struct T : S { };",
        REINTERPRETED,
    ),
    "array of pointers": (
        "const device float* a[2] = {x, w}; y[i] = ((thread uint*)a)[i & 3];",
        "",
        REINTERPRETED,
    ),
    "pointer put into an array": ("*(device S*)y = S{x};", "struct S { const device float* p; };",
                                  REINTERPRETED),
    "union": ("union { const device float* p; ulong u; } q; q.p = x; y[i] = q.u & 255;", "", UNION),
}  # fmt: skip


@pytest.mark.parametrize(("body", "header", "message"), ADDRESSES.values(), ids=ADDRESSES)
def test_no_text_looks_at_an_address(body: str, header: str, message: str) -> None:
    [found] = {d.message: d for d in refused(body, header)}.values()
    assert found.message == message
    assert (found.file, found.line) in (("source", 2), ("header", 1))


def test_bits_are_taken_of_numbers_only() -> None:
    found = refused("const device float* p = x; y[i] = as_type<ulong>(p) & 255;")
    assert found[0].message == (
        "as_type takes numbers and vectors of them, found 'const device float *'"
    )


HONEST = {
    "a walk to the end": (
        "float s = 0; auto end = x + 128; for (auto p = x; p != end; ++p) s += *p; y[i] = s;",
        "",
    ),
    "a walk by lanes": (
        """uint lane = thread_index_in_simdgroup; const device float* row = x + (i / 32) * 128;
        float s = 0; for (const device float* p = row + lane; p < row + 128; p += 32) s += *p;
        y[i] = simd_sum(s);""",
        "",
    ),
    "a range of a function": (
        "y[i] = total(x + i, x + i + 4) + total(w, w + 2);",
        """float total(const device float* first, const device float* last) {
          float s = 0; while (first < last) s += *first++; return s + (last - first); }""",
    ),
    "a range in a struct": (
        "Range r{x, x + 8}; float s = 0; for (; !r.done(); r.next()) s += *r.p; y[i] = s;",
        """struct Range { const device float* p; const device float* end;
          bool done() const { return p == end; } void next() { p++; } };""",
    ),
    "an array of a thread": (
        "float a[3] = {1, 2, 3}; float s = 0; for (float v : a) s += v; y[i] = s;",
        "",
    ),
    "a null pointer": (
        "y[i] = f(x) + f(nullptr);",
        "float f(const device float* p) { return p == nullptr ? 0 : p ? *p : 1; }",
    ),
    "vectors in memory": (
        "device float4* v = (device float4*)y; v[i] = ((const device float4*)x)[i];",
        "",
    ),
    "vectors by way of a struct": (
        "*(device Vector*)(y + i) = *(const device Vector*)(x + i);",
        (
            "template <typename T, int N> struct Loader { const device T* p; };\n"
            "struct Vector { uchar v[sizeof(float) * 1]; };"
        ),
    ),
    "the bits of numbers": (
        "union { float f; uint u; } q; q.f = x[i]; y[i] = as_type<float>(q.u ^ 0x80000000u);",
        "",
    ),
    "a loader with pointers": (
        "Loader l(x, i); y[i] = l.load();",
        """struct Loader { const device float* p; thread float* unused; uint i;
          Loader(const device float* p_, uint i_) : p(p_ + i_), unused(nullptr), i(i_) {}
          float load() const { return *p; } };""",
    ),
    "one of two arrays": ("const device float* p = i & 1 ? x : w; y[i] = p[i];", ""),
    "atomics in the output": (
        "atomic_fetch_add_explicit((device atomic_uint*)y, 1u, memory_order_relaxed);",
        "",
    ),
    "functions as template arguments": (
        "y[i] = apply<f>(x[i]);",
        VALUE + "template <float (*F)(float)> float apply(float a) { return F(a); }",
    ),
    "an overload that calls another": (
        "y[i] = f(i);",
        "float f(float a) { return a; } float f(uint a) { return f(float(a)); }",
    ),
    "templates that call each other": (
        "y[i] = f<4>();",
        "template <int N> float f() { if constexpr (N > 0) return f<N - 1>() + 1; return 0; }",
    ),
    "threadgroup memory of the kernel": (
        "threadgroup float s[32]; put(s, i & 31, x[i]); y[i] = s[i & 31];",
        "void put(threadgroup float* s, uint i, float v) { s[i] = v; }",
    ),
    "constants computed by recursion": (
        "float a[power(2)]; a[0] = x[i]; y[i] = a[0];",
        "constexpr int power(int n) { return n == 0 ? 1 : 3 * power(n - 1); }",
    ),
    "operators of objects in memory": (
        (
            "device float4& v = *(device float4*)y; v += 1.0f; v.x = 2; float4 u = v;"
            " device S* s = (device S*)y; S q = *s; *s += q; y[i] = (*s + q).a + u.x;"
        ),
        (
            "struct S { float a; S operator+(S o) const { return o; } "
            "device S& operator+=(S o) device { a += o.a; return *this; } };"
        ),
    ),
    "lambdas": ("auto f = [&](auto a) { return a + x[i]; }; y[i] = f(1.0f);", ""),
    "pointers to arrays": (
        "float a[2][2] = {{1, 2}, {3, 4}}; thread float (*p)[2] = a; y[i] = p[1][0];",
        "",
    ),
    "attributes of C++ and hints": (
        """#pragma clang loop unroll(full)
for (uint k = 0; k < 3; k++)
  switch (k) { case 1: y[i] = 1; [[fallthrough]]; default: y[i] = f(x[i]); }
if (x[i] > 0) [[likely]] y[i] += sizeof(Tight);""",
        """[[nodiscard, gnu::always_inline]] inline float f([[maybe_unused]] float v) { return 1; }
__attribute__((noinline)) float g(float v) { return v; }
struct __attribute__((packed)) Tight { float a; char b; };
struct alignas(16) Wide { float a; };""",
    ),
}


@pytest.mark.parametrize(("body", "header"), HONEST.values(), ids=HONEST)
def test_honest_pointers_are_taken(body: str, header: str) -> None:
    assert refused(body, header) == ()


LANGUAGE = {
    "cast into thread memory": (
        "thread float* p = (thread float*)x; y[i] = p[i];",
        "",
        (
            "cannot convert 'const device float *' to 'thread float *', which is in another "
            "address "
            "space"
        ),
    ),
    "cast between spaces": (
        "const constant float* p = (const constant float*)x; y[i] = p[i];",
        "",
        (
            "C-style cast from 'const device float *' to 'constant float *' converts between "
            "mismatching address spaces"
        ),
    ),
    "cast of threadgroup memory": (
        "threadgroup float s[4]; thread float* p = (thread float*)s; y[i] = p[0];",
        "",
        (
            "C-style cast from 'threadgroup float *' to 'thread float *' converts between "
            "mismatching "
            "address spaces"
        ),
    ),
    "cast of thread memory": (
        "float s[4]; device float* p = (device float*)s; y[i] = p[0];",
        "",
        (
            "C-style cast from 'thread float *' to 'device float *' converts between mismatching "
            "address spaces"
        ),
    ),
    "pointer by a name without space": (
        "P p = x; y[i] = *p;",
        "typedef const float* P;",
        (
            "cannot initialize a variable of type 'thread const float *' with an lvalue of type "
            "'const device float *'"
        ),
    ),
    "pointer to an element for a thread's": (
        "thread const float* p = &x[i]; y[i] = *p;",
        "",
        (
            "cannot initialize a variable of type 'thread const float *' with an rvalue of type "
            "'const device float *'"
        ),
    ),
    "pointer passed as one to a thread's memory": (
        "set(y + i);",
        "void set(thread float* p) { *p = 1; }",
        "no matching function for call to 'set'; it takes 'thread float *', not 'device float *'",
    ),
    "element passed as a thread's": (
        "set(y[i]);",
        "void set(thread float& p) { p = 1; }",
        "no matching function for call to 'set'; it takes 'thread float &', not 'device float'",
    ),
    "element passed as a thread's to a template": (
        "set(y[i]);",
        "template <typename T> void set(thread T& p) { p = 1; }",
        "no matching function for call to 'set'; it takes 'thread T &', not 'device float'",
    ),
    "element passed to a lambda": (
        "auto set = [](thread float& p) { p = 1; }; set(y[i]);",
        "",
        (
            "no matching function for call to 'operator()'; it takes 'thread float &', not "
            "'device float'"
        ),
    ),
    "element passed to the library": (
        "y[i] = frexp(x[i], *(device int*)y);",
        "",
        "no matching function for call to 'frexp'; it takes 'thread int &', not 'device int'",
    ),
    "reference to another space": (
        "thread float& p = y[i]; p = 1;",
        "",
        "a reference of type 'thread float &' cannot bind to 'device float'",
    ),
    "array of a function constant's size": (
        "float a[N]; a[0] = 1; y[i] = a[0];",
        "constant int N [[function_constant(0)]];",
        "variable length arrays are not supported in Metal",
    ),
    "template of a function constant": (
        "y[i] = f<N>();",
        "constant int N [[function_constant(0)]];\ntemplate <int M> float f() { return M; }",
        "no matching function for call to 'f'",
    ),
    "components assigned twice": (
        "float2 v = float2(1); v.xx = float2(2); y[i] = v.x;",
        "",
        "vector is not assignable (contains duplicate components)",
    ),
    "pointer returned as one to a thread's memory": (
        "y[i] = *f(x);",
        "thread const float* f(const device float* p) { return p; }",
        (
            "cannot convert 'const device float *' to 'thread const float *', which is in another "
            "address space"
        ),
    ),
    "threadgroup variable of a function": (
        "y[i] = g(x, i);",
        (
            "float g(const device float* x, uint i) { threadgroup float s[32]; s[i & 31] = x[i]; "
            "return s[i & 31]; }"
        ),
        "threadgroup variable 's' must be declared in the kernel function; pass a pointer to it",
    ),
    "function pointer": ("float (*g)(float) = f; y[i] = g(x[i]);", VALUE, FUNCTION),
    "function pointer of auto": ("auto g = &f; y[i] = (*g)(x[i]);", VALUE, FUNCTION),
    "function as a parameter": (
        "y[i] = g(f, x[i]);",
        VALUE + "float g(float (&h)(float), float a) { return h(a); }",
        FUNCTION,
    ),
    "pointer to a method": (
        "S s; float (S::*g)() = &S::f; y[i] = (s.*g)();",
        "struct S { float f() { return 1; } };",
        FUNCTION,
    ),
    "address of a label": (
        "thread void* p = &&a; a: y[i] = 0;",
        "",
        "addresses of labels are not supported in Metal",
    ),
    "long double": ("y[i] = x[i] * 1.0L;", "", "'long double' is not supported in Metal"),
    "computed constant": ("y[i] = g;", VALUE + "constant float g = f(1);", CONSTANT),
    "function before a kernel": (
        "y[i] = 1;",
        "__attribute__((constructor)) void early() {}",
        "no function runs before a kernel",
    ),
    "function after a kernel": (
        "y[i] = 1;",
        "__attribute__((destructor)) void late() {}",
        "no function runs after a kernel",
    ),
    "variable arguments": (
        "y[i] = g(1, 2);",
        "float g(int a, ...) { return a; }",
        "variable arguments are not supported in Metal",
    ),
    "parameter of auto": (
        "y[i] = g(x[i]);",
        "float g(auto a) { return a; }",
        "'auto' is not allowed in a function's parameters before C++20",
    ),
    "concept": (
        "y[i] = g(x[i]);",
        "template <typename T> concept C = sizeof(T) == 4; template <C T> T g(T a) { return a; }",
        "'concept' is not supported in Metal",
    ),
    "ordered store": (
        "threadgroup atomic_int a; atomic_store_explicit(&a, 1, memory_order_seq_cst); y[i] = 0;",
        "",
        ORDER,
    ),
    "ordered load": (
        "threadgroup atomic_int a; y[i] = atomic_load_explicit(&a, memory_order_acquire);",
        "",
        ORDER,
    ),
    "class of members by parentheses": (
        "P p(x[i], 1); y[i] = p.a;",
        "struct P { float a, b; };",
        "no matching constructor for initialization of 'P'",
    ),
    "class of a template's by parentheses": (
        "y[i] = f(x[i]);",
        """template <typename T> struct Q { T a, b; };
template <typename T> T f(T a) { return Q<T>(a, a).b; }""",
        "no matching constructor for initialization of 'Q<float>'",
    ),
    "two subscripts": (
        "A a; y[i] = a[1, 2];",
        "struct A { int operator[](int n, int m) const { return n + m; } };",
        "overloaded 'operator[]' cannot have more than one parameter",
    ),
    "64-bit sum": (
        "atomic_fetch_add_explicit((device atomic<ulong>*)y, 1ul, memory_order_relaxed);",
        "",
        "atomic operations take 32 bits, of 64 only minima and maxima",
    ),
    "minimum of floats": (
        "atomic_fetch_min_explicit((device atomic_float*)y, 1.0f, memory_order_relaxed);",
        "",
        "atomic_float is added to and subtracted from; other operations take integers",
    ),
    "shared float": (
        "threadgroup atomic_float t; atomic_store_explicit(&t, x[i], memory_order_relaxed);",
        "",
        SHARED_FLOAT,
    ),
    "shared float behind a pointer": (
        "threadgroup atomic_float t[4]; add(t);",
        """template <typename P> void add(P p) {
  atomic_fetch_add_explicit(p, 1.0f, memory_order_relaxed);
}""",
        SHARED_FLOAT,
    ),
    "shared float by a cast": (
        """threadgroup float t[4];
atomic_fetch_sub_explicit((threadgroup atomic<float>*)t, 1.0f, memory_order_relaxed);""",
        "",
        SHARED_FLOAT,
    ),
    "matrix of other elements than its memory's": (
        "simdgroup_float8x8 m; simdgroup_load(m, (const device half*)x, 8);",
        "",
        "no matching function for call to 'simdgroup_load'",
    ),
    "matrix into memory of other elements": (
        "threadgroup float t[64]; simdgroup_half8x8 m(1); simdgroup_store(m, t, 8);",
        "",
        "no matching function for call to 'simdgroup_store'",
    ),
    "bits of floats": (
        "atomic_fetch_or_explicit((device atomic_float*)y, 1.0f, memory_order_relaxed);",
        "",
        "atomic_float is added to and subtracted from; other operations take integers",
    ),
    "attribute of clang's": (
        "y[i] = f(x[i]);",
        '[[clang::no_sanitize("thread")]] float f(float v) { return v; }',
        "the attribute 'no_sanitize' is not supported in Metal",
    ),
    "attribute by a macro": (
        "y[i] = f(x[i]);",
        """#define PLAIN __attribute__((disable_sanitizer_instrumentation))
PLAIN float f(float v) { return v; }""",
        "the attribute 'disable_sanitizer_instrumentation' is not supported in Metal",
    ),
    "attribute by a pragma": (
        "y[i] = f(x[i]);",
        """#pragma clang attribute push(__attribute__((no_sanitize("address"))), apply_to=function)
float f(float v) { return v; }
#pragma clang attribute pop""",
        "the pragma clang attribute is not supported in Metal",
    ),
    "attribute behind a linkage": (
        "y[i] = f(x[i]);",
        'extern "C" { [[clang::no_sanitize("thread")]] float f(float v) { return v; } }',
        "the attribute 'no_sanitize' is not supported in Metal",
    ),
    "attribute of a function that is named like the simulator's": (
        "y[i] = kw_call_f(x[i]);",
        '[[clang::no_sanitize("thread")]] inline float kw_call_f(float v) { return v; }',
        "'kw_call_f' is a name of the simulator's; choose another",
    ),
    "optimisation by a pragma": (
        "y[i] = f(x[i]);",
        """#pragma clang optimize off
float f(float v) { return v; }""",
        "the pragma clang optimize is not supported in Metal",
    ),
    "attribute of a variable": (
        "__attribute__((uninitialized)) float v; y[i] = v;",
        "",
        "the attribute 'uninitialized' is not supported in Metal",
    ),
    "attribute of a template": (
        "y[i] = f(x[i]);",
        "template <typename T> [[gnu::const]] T f(T v) { return v; }",
        "the attribute 'const' is not supported in Metal",
    ),
}


@pytest.mark.parametrize(("body", "header", "message"), LANGUAGE.values(), ids=LANGUAGE)
def test_what_apples_compiler_refuses_is_refused(body: str, header: str, message: str) -> None:
    found = refused(body, header)
    assert any(message in d.message for d in found)
    assert all(d.file in ("source", "header") and d.line > 0 for d in found)
