"""Members and functions that are overloaded by address space: each object gets its own."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.metal import CompileError, simulator

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_S = """struct S {
  float x;
  float get() const thread { return x + 100; }
  float get() const device { return x + 200; }
  float get() const constant { return x + 300; }
  float get() const threadgroup { return x + 400; }
};
"""
_KERNEL = """kernel void k(device S* x [[buffer(0)]], constant S& c [[buffer(1)]],
    device float* y [[buffer(2)]], threadgroup S* g [[threadgroup(0)]]) {
  S l = x[0];
  g[0] = l;
"""
_HELD = """struct Pair { S one; S more[2];
  float sum() const thread { return one.get() + more[1].get(); }
  float sum() const device { return one.get() + more[1].get(); }
  float first() const { return one.get(); }
};
"""
_FREE = """float load(const thread S& s) { return s.x + 1; }
float load(const device S& s) { return s.x + 2; }
float load(const constant S& s) { return s.x + 3; }
float load(const threadgroup S& s) { return s.x + 4; }
float at(const thread float* p, uint i) { return p[i] + 10; }
float at(const device float* p, uint i) { return p[i] + 20; }
float at(const constant float* p, uint i) { return p[i] + 30; }
float at(const threadgroup float* p, uint i) { return p[i] + 40; }
"""


def _ran(text: str, form: str = "plain") -> list[float]:
    """Run a kernel on objects of 1, 2, … in device memory and one of 5 in constant memory."""
    x, y = np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32)
    outcome = (
        simulator.compile(_HEAD + text)
        .kernel("k")
        .launch(
            [x, np.full(4, 5, np.float32), y],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            threadgroup_bytes={0: 16},
            sanitize=form == "sanitize",
            count=form == "count",
        )
    )
    assert not outcome.reports
    return [float(v) for v in y if v != 0]


@pytest.mark.parametrize("form", ["plain", "sanitize", "count"])
@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("", "y[0] = l.get(); y[1] = x[0].get(); y[2] = c.get(); y[3] = g->get();",
         [101, 201, 305, 401]),
        ("", ("device S& r = x[1]; const device S* p = x + 2; thread S& t = l; auto a = x[1];"
         "auto& b = x[1]; y[0] = r.get(); y[1] = p->get(); y[2] = t.get(); y[3] = a.get();"
         "y[4] = b.get(); y[5] = (*p).get(); y[6] = S{9}.get();"),
         [202, 203, 101, 102, 202, 203, 109]),
        ("", ("threadgroup S a[2]; threadgroup S m[2][2]; a[1] = l; m[1][0] = x[2];"
         "y[0] = a[1].get(); y[1] = m[1][0].get(); S t[2] = {l, x[1]}; y[2] = t[1].get();"),
         [401, 403, 102]),
        ("constant S table[2] = {{7}, {8}};", ("y[0] = table[1].get(); const constant S* p = table;"
         "y[1] = p->get(); constant S& r = table[1]; y[2] = r.get();"), [308, 307, 308]),
        (("template <typename P> float of(P p) { return p->get(); }"
         "template <typename T> float ref(const device T& s) { return s.get(); }"
         "template <typename T> float ref(const thread T& s) { return s.get(); }"
         "template <typename T> float ref(const threadgroup T& s) { return s.get(); }"
         "template <typename T> float copy(T s) { return s.get(); }"),
         ("y[0] = of(x); y[1] = of(&l); y[2] = of(&c); y[3] = of(g); y[4] = ref(x[1]);"
         "y[5] = ref(l); y[6] = copy(x[1]); y[7] = ref(g[0]);"),
         [201, 101, 305, 401, 202, 101, 102, 401]),
        (_HELD, ("device Pair& d = *(device Pair*)x; Pair t = {l, {l, l}};"
         "y[0] = d.sum(); y[1] = t.sum(); y[2] = d.one.get(); y[3] = d.more[1].get();"
         "y[4] = t.more[0].get(); y[5] = t.first();"), [404, 202, 201, 203, 101, 101]),
        (("struct D : S { float both() const device { return get() + x; }"
         "float both() const thread { return get() + x; } };"),
         ("device D* d = (device D*)x; D t; t.x = 3; y[0] = d->both(); y[1] = t.both();"
         "y[2] = d->get(); y[3] = t.get();"), [202, 106, 201, 103]),
        (("struct E : S { float get() const device { return S::get() + 0.5f + S::x; }"
          "float get() const thread { return S::get() + x; }"
          "float twice() const device { return 2 * S::get(); } };"),
         ("device E* d = (device E*)x; E t; t.x = 3; y[0] = d->get(); y[1] = t.get();"
          "y[2] = d->twice(); y[3] = d->S::get();"), [202.5, 106, 402, 201]),
        (("template <typename T> struct Two : S { T z;"
         "float all() const device { return this->get() + z; } float all() const thread;"
         "float own() const device { return get(); } };"
         "template <typename T> float Two<T>::all() const thread { return this->get() + z + 1; }"),
         ("device Two<float>* d = (device Two<float>*)x; Two<float> t; t.x = 3; t.z = 4;"
         "y[0] = d->all(); y[1] = t.all(); y[2] = d->own();"), [203, 108, 201]),
        (("struct Row { float v[4]; device float& operator[](uint i) device { return v[i]; }"
         "thread float& operator[](uint i) thread { return v[i]; }"
         "float operator[](uint i) const threadgroup { return 9 * v[i]; } };"),
         ("device Row& d = *(device Row*)x; Row t; threadgroup Row r; t[1] = 6; d[2] = 8;"
         "device float* p = &d[0]; r.v[1] = 2; y[0] = t[1]; y[1] = d[2]; y[2] = *p; y[3] = r[1];"),
         [6, 8, 1, 18]),
        (("struct F { float a; float operator()(float b) const thread { return a * b; }"
         "float operator()(float b) const device { return a + b; }"
         "F operator+(F o) const thread { return F{a + o.a}; }"
         "F operator+(F o) const device { return F{a + o.a + 50}; } };"),
         ("device F* d = (device F*)x; F t{3}; y[0] = t(4); y[1] = d[1](4); y[2] = (t + t).a;"
         "y[3] = (d[0] + t).a;"), [12, 6, 6, 54]),
        (("struct N { float a; operator float() const thread { return a; }"
         "operator float() const device { return a + 0.5f; }"
         "template <typename T> T as() const thread { return T(a); }"
         "template <typename T> T as() const device { return T(a + 3); } };"),
         ("device N* d = (device N*)x; N t{3}; float f = t, h = d[0]; y[0] = f; y[1] = h;"
         "y[2] = t.as<float>(); y[3] = d->as<int>(); y[4] = 2 * d[1]; y[5] = float(t);"),
         [3, 1.5, 3, 4, 5, 3]),
        (("struct C { float n; void add(float v) thread { n += v; }"
         "void add(float v) device { n += 2 * v; } void add(float v) threadgroup { n += 3 * v; }"
         "thread C& more(void) thread { n++; return *this; }"
         "device C& more(void) device { n += 10; return *this; } };"),
         ("device C* d = (device C*)x; C t{1}; threadgroup C h; h.n = 1; t.add(1); d->add(1);"
         "h.add(1); y[0] = t.n; y[1] = d->n; y[2] = h.n; t.more().more(); d->more().more();"
         "y[3] = t.n; y[4] = d->n;"), [2, 3, 4, 4, 23]),
        (("struct V { float a; float f(float b = 2, int n = 3) const thread { return a + b * n; }"
         "float f(float b = 2, int n = 3) const device { return a - b * n; }"
         "float g(uint i) const device { return 1; } float g(int i) const thread { return 2; }"
         "float g(float i) const device { return 3; } };"),
         ("device V* d = (device V*)x; V t{1}; y[0] = t.f(); y[1] = d->f(1); y[2] = t.g(1u);"
         "y[3] = d->g(1u); y[4] = d->g(1.0f);"), [7, -2, 2, 1, 3]),
        (("struct P { const device S* at; float first() const { return at->get(); }"
         "float here() const thread { return at[1].get(); }"
         "float here() const threadgroup { return at[1].get() + 1000; } };"),
         "P p{x}; threadgroup P h; h.at = x; y[0] = p.first(); y[1] = p.here(); y[2] = h.here();",
         [201, 202, 1202]),
        ("struct A { array<S, 2> s; };",
         ("device A& d = *(device A*)x; threadgroup A h; A t; h.s[1] = l; t.s[0] = l;"
         "y[0] = d.s[1].get(); y[1] = h.s[1].get(); y[2] = t.s[0].get();"), [202, 401, 101]),
        (("struct I { float a; float id() const thread { return a + 1; }"
         "float id() const device { return a + 1; }"
         "float id() const constant { return a + 1; } };"),
         ("device I* d = (device I*)x; I t{5}; constant I& e = (constant I&)c; y[0] = t.id();"
         "y[1] = d[1].id(); y[2] = e.id();"), [6, 3, 6]),
        (("struct Sh { float a; float f(float a) const thread { return a; }"
         "float f(float b) const device { float a = b * 2; return a + this->a; } };"),
         "device Sh* d = (device Sh*)x; Sh t{5}; y[0] = t.f(3); y[1] = d[1].f(3);", [3, 8]),
        (("struct Un { float a; float f() const { return a; }"
         "float f() const device { return a + 20; } };"),
         "device Un* d = (device Un*)x; Un t{5}; y[0] = t.f(); y[1] = d->f();", [5, 21]),
        (("struct La { float a;"
          "float f(float b) const thread { auto g = [this](float c) { return a + c; };"
          "return g(b); }"
          "float f(float b) const device { auto g = [&, this](float c) { return this->a * c; };"
          "return g(b); } float one() const device { auto g = [this]() { return a; };"
          "return g(); } };"),
         ("device La* d = (device La*)x; La t{5}; y[0] = t.f(2); y[1] = d[1].f(2);"
          "y[2] = d->one();"), [7, 4, 1]),
        (("struct Co { float re, im; Co conj() const thread { return Co{re, -im}; }"
          "Co conj() const device { return Co{re, -im}; }"
          "float norm() const thread { return re * re + im * im; }"
          "float norm() const device { return re * re + im * im + 1; } };"),
         ("device Co* d = (device Co*)x; y[0] = d->conj().norm(); y[1] = d->norm();"
          "y[2] = Co(d[0]).norm(); y[3] = (c.x > 2 ? d->conj() : d[1].conj()).norm();"),
         [5, 6, 5, 5]),
        (("template <typename P> float first(P p) { return *p; }"
          "struct Te { float a; float f() const device { return first(&a); }"
          "float f() const thread { return first(&a); } };"),
         ("device Te* d = (device Te*)x; Te t{5}; y[0] = d->f(); y[1] = t.f();"
          "y[2] = first(&c.x); y[3] = first(&x->x); y[4] = first(&l.x);"), [1, 5, 5, 1, 1]),
        (("struct St { float a; static float s(float v) { return v * 2; } enum { three = 3 };"
         "static constexpr constant float k = 4; float h() const { return 1; }"
         "float f() const thread { return s(a) + three + k; }"
         "float f() const device { return s(a) + three + k + 0.5f; } };"),
         "device St* d = (device St*)x; St t{5}; y[0] = t.f(); y[1] = d->f();", [17, 9.5]),
        (("namespace n { struct In { struct Deep { float a;"
         "int f() const volatile device; int f() const thread { return 2; } }; }; }"
         "int n::In::Deep::f() const volatile device { return 1; }"),
         ("device n::In::Deep* d = (device n::In::Deep*)x; n::In::Deep t{5}; y[0] = t.f();"
         "y[1] = d->f();"), [2, 1]),
        (("struct Au { float a; auto f() const thread -> float { return a; }"
         "auto f() const device -> float { return a + 5; }"
         "constexpr METAL_FUNC float q() thread const noexcept { return a; }"
         "constexpr METAL_FUNC float q() device const noexcept { return a + 6; } };"),
         ("device Au* d = (device Au*)x; Au t{5}; y[0] = t.f(); y[1] = d->f(); y[2] = t.q();"
         "y[3] = d->q();"), [5, 6, 5, 7]),
        (_FREE, ("y[0] = load(l); y[1] = load(x[0]); y[2] = load(c); y[3] = load(g[0]);"
         "y[4] = load(S{7}); y[5] = load(*(x + 1));"), [2, 3, 8, 5, 8, 4]),
        (_FREE, ("float t[2] = {1, 2}; threadgroup float h[2]; h[1] = 3; const device float* p ="
         "&x->x; y[0] = at(t, 1); y[1] = at(h, 1); y[2] = at(p, 1); y[3] = at(&c.x, 0);"
         "y[4] = at(&l.x, 0); y[5] = at(true ? p : p + 1, 0); y[6] = at(&g[0].x, 0);"),
         [12, 43, 22, 35, 11, 21, 41]),
        (_FREE + "template <typename P> float via(P p) { return at(p, 0); }"
         "template <typename T> float one(T s) { return load(s); }"
         "template <typename T> float by(const device T& s) { return load(s); }"
         "template <typename T> float by(const thread T& s) { return load(s); }"
         "template <typename T> float by(const constant T& s) { return load(s); }",
         ("float t[1] = {1}; y[0] = via(&x->x); y[1] = via(&t[0]); y[2] = one(x[0]);"
         "y[3] = by(x[0]); y[4] = by(l); y[5] = by(c);"), [21, 11, 2, 3, 2, 8]),
        (_FREE + "struct M { S s; float v[2];"
         "float a() const device { return load(s) + at(v, 1); }"
         "float a() const thread { return load(s) + at(v, 1); }"
         "float b() const device { return load(this->s) + at(&this->v[0], 1); }"
         "float self() const device; };"
         "float of(const device M& m) { return 7; } float of(const thread M& m) { return 8; }"
         "float M::self() const device { return of(*this) + load(s); }",
         ("device M* d = (device M*)x; M t = {l, {1, 2}}; y[0] = d->a(); y[1] = t.a();"
         "y[2] = d->b(); y[3] = d->self();"), [26, 14, 26, 10]),
        (("#define DEF(N, V) struct N { float a; float f() const device { return a + V; } \\\n"
          "  float f() const thread { return a; } };\nDEF(A, 5)\nDEF(B, 6)\n"
          "#define CD const device\n#define IN(space, v) float g() const space { return a + v; }\n"
          "struct C { float a; float f() CD { return a + 7; } float f() const thread { return a; }"
          "IN(device, 8) IN(thread, 9) };\n"),
         ("device A* d = (device A*)x; A t{3}; device B* e = (device B*)x; C q{4};"
          "device C* h = (device C*)x; y[0] = d->f(); y[1] = t.f(); y[2] = e->f(); y[3] = q.f();"
          "y[4] = h->f(); y[5] = q.g(); y[6] = h->g();"), [6, 3, 7, 4, 8, 13, 9]),
        (("#if 1\nstruct A { float a; float f() const device { return a + 5; }\n#else\n"
          "struct A { float a;\n#endif\nfloat f() const thread { return a; } };\n"),
         "device A* d = (device A*)x; A t{3}; y[0] = d->f(); y[1] = t.f();", [6, 3]),
        (("struct A { float a; friend float ex(const device A& o) { return o.a + 9; }"
          "friend float ex(const thread A& o) { return o.a; }"
          "float f() const device { return ex(*this); }"
          "float f() const thread { return ex(*this); } };"),
         "device A* d = (device A*)x; A t{3}; y[0] = d->f(); y[1] = t.f();", [10, 3]),
        (("struct A { union { float a; uint b; }; struct { float c; float d; };"
          "float f() const device { return a + c; } float f() const thread { return a - c; } };"),
         "device A* d = (device A*)x; A t = *d; y[0] = d->f(); y[1] = t.f();", [3, -1]),
        (("struct A { float a; float b; float f(float x) const device { float b = x;"
          "{ float a = 2; b += a; } auto g = [](float a) { return a * 2; }; return a + b + g(4); }"
          "float f(float x) const thread { return a; } };"),
         "device A* d = (device A*)x; A t{3, 4}; y[0] = d->f(1); y[1] = t.f(1);", [12, 3]),
        (("struct A { atomic_uint n; uint add(uint k) device {"
          "return atomic_fetch_add_explicit(&n, k, memory_order_relaxed) + 1; }"
          "uint add(uint k) threadgroup {"
          "return atomic_fetch_add_explicit(&n, k, memory_order_relaxed); } };"),
         ("device A* d = (device A*)(x + 3); threadgroup A t;"
          "atomic_store_explicit(&t.n, 4u, memory_order_relaxed);"
          "atomic_store_explicit(&d->n, 4u, memory_order_relaxed);"
          "y[0] = d->add(2); y[1] = t.add(2); y[2] = d->add(0);"), [5, 4, 7]),
        (("struct A { float4 v; float f() const device { return v.x + v.y; }"
          "float f() const thread { return v.z; }"
          "void s() device { v.xy = float2(7, 8); v.z += 1; } void s() thread { v.xy = 1; } };"),
         ("device A* d = (device A*)x; A t = *d; d->s(); t.s(); y[0] = d->f(); y[1] = t.f();"
          "y[2] = d->v.z; y[3] = t.v.x;"), [15, 3, 4, 1]),
    ],
)  # fmt: skip
@pytest.mark.sampled(40)
def test_each_object_gets_the_overload_of_its_space(
    before: str, body: str, expected: list[float], form: str
) -> None:
    assert _ran(_S + before + _KERNEL + body + "}", form) == expected


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("", "y[0] = (c.x > 2 ? x[0] : x[1]).get();", "'get' is overloaded .* of what `\\?:`"),
        ("", "y[0] = (x[0] = l).get();", "'get' is overloaded .* of what an assignment returns"),
        (_FREE, "y[0] = load(c.x > 2 ? x[0] : x[1]);", "'load' is overloaded by address space"),
        (("struct A { float a; float f() const thread { return 1; }"
         "float f() const device { return 2; } };"),
         "threadgroup A a; a.a = 1; y[0] = a.f();",
         "no matching member function for call to 'f': the object is in threadgroup memory"),
        (("struct A { float a; float f() const thread { return 1; }"
          "float f() const device { return 2; } }; struct B : A { using A::f; };"),
         "y[0] = ((device B*)x)->f();", "'f' is overloaded .* as in a.B::f()"),
        ("struct A { float a; A() thread : a(1) {} A() constant : a(2) {} };", "",
         "'A' is overloaded by address space, and the simulator cannot choose among constructors"),
        (("typedef struct { float a; float f() const thread { return 1; }"
         "float f() const device { return 2; } } A;"), "", "'f' is overloaded .* without a name"),
    ],
)  # fmt: skip
def test_an_object_without_a_space_is_refused(before: str, body: str, expected: str) -> None:
    with pytest.raises(CompileError, match=expected):
        simulator.compile(_HEAD + _S + before + _KERNEL + body + "}")


@pytest.mark.parametrize("use", ["l.get()", "(c.x > 2 ? l : x[1]).get()", "load(true ? l : l)"])
def test_what_is_chosen_between_spaces_is_the_threads(use: str) -> None:
    assert _ran(_S + _FREE + _KERNEL + f"y[0] = {use}; }}") == [2 if "load" in use else 101]


@pytest.mark.parametrize(
    ("use", "refusal"),
    [
        ("this->z", ""),
        ("this->more()", ""),
        ("z", "'z' is a member whose address space the simulator does not know; write this->z"),
        ("more()", "call to non-static member function without an object argument"),
    ],
)
def test_members_of_another_files_class_are_named_with_this(
    tmp_path: Path, use: str, refusal: str
) -> None:
    (tmp_path / "base.h").write_text(
        "struct Base { float z; float more() const thread { return z; }"
        "float more() const device { return z; } };\n"
    )
    text = f"""#include <metal_stdlib>
    #include "base.h"
    struct D : Base {{ float f() const device {{ return {use} + 1; }}
      float f() const thread {{ return 0; }} }};
    kernel void k(device D* x [[buffer(0)]], device float* y [[buffer(1)]]) {{ y[0] = x->f(); }}
    """
    if refusal:
        with pytest.raises(CompileError, match=refusal):
            simulator.compile(text, folders=[tmp_path])
        return
    x, y = np.full(4, 3, np.float32), np.zeros(1, np.float32)
    kernel = simulator.compile(text, folders=[tmp_path]).kernel("k")
    kernel.launch([x, y], grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y[0] == 4


def test_an_inherited_member_of_another_file_keeps_its_space(tmp_path: Path) -> None:
    """Where nothing else differs, a member of `this` that nobody can see is refused."""
    (tmp_path / "base.h").write_text(_S)
    text = """#include <metal_stdlib>
    #include "base.h"
    struct D : S { float f() const device { return get(); } };
    kernel void k(device D* x [[buffer(0)]], device float* y [[buffer(1)]]) { y[0] = x->f(); }
    """
    with pytest.raises(CompileError, match=r"'get' is overloaded .* write this-> before it"):
        simulator.compile(text, folders=[tmp_path])


@pytest.mark.parametrize("space", ["thread", ""])
def test_members_of_one_text_that_call_overloads_of_another_are_refused(
    tmp_path: Path, space: str
) -> None:
    """They look alike in their own file, and are one for all spaces there."""
    (tmp_path / "load.h").write_text(
        "float load(const thread float& p) { return p; }"
        "float load(const device float& p) { return p + 1; }\n"
    )
    text = f"""#include <metal_stdlib>
    #include "load.h"
    struct D {{ float x; float f() const device {{ return load(x); }}
      float f() const {space} {{ return load(x); }} }};
    kernel void k(device D* x [[buffer(0)]], device float* y [[buffer(1)]]) {{ y[0] = x->f(); }}
    """
    with pytest.raises(CompileError, match=r"'load' is overloaded .* declare both in one file"):
        simulator.compile(text, folders=[tmp_path])
    simulator.compile(text.replace('#include "load.h"', (tmp_path / "load.h").read_text()))
