#include <metal_stdlib>
using namespace metal;

// nested structs
namespace of_nested_structs {
struct Outer {
  struct Inner {
    float v[3];
    uint n;
  } a, b;
  float2 w;
};
static Outer made(float v) {
  Outer o = {{{v, v + 1, v + 2}, 3}, {{0}, 1}, float2(v)};
  o.b.v[2] = 5;
  return o;
}
}
kernel void nested_structs(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_nested_structs;
  Outer o = made(x[i]);
  Outer p = o;
  p.a.v[1] *= 2;
  y[i] = o.a.v[1] + p.a.v[1] + p.b.v[0] + p.b.v[2] + p.w.y + o.a.n;
}

// packed in structs
namespace of_packed_in_structs {
struct Point {
  packed_float3 at;
  float w;
  packed_short2 s;
  packed_half4 h;
};
}
kernel void packed_in_structs(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_packed_in_structs;
  Point p;
  p.at = float3(x[i], 2, 3);
  p.w = 1;
  p.s = short2(short(i), -4);
  p.h = half4(1, 2, 3, 4);
  p.at.y += 1;
  p.at[2] *= 2;
  float3 v = p.at;
  p.at = v.zyx;
  packed_float3 q = p.at * 2.0f;
  y[i] = p.at.x + q.y + q[2] + p.s.x + p.s[1] + float(p.h.w) + sizeof(Point);
}

// packed behind pointers
namespace of_packed_behind_pointers {
struct Four {
  packed_float3 v;
  float w;
};
}
kernel void packed_behind_pointers(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_packed_behind_pointers;
  const device Four* p = reinterpret_cast<const device Four*>(x);
  Four f = p[i / 4];
  y[i] = dot(float3(f.v), float3(1, 2, 3)) + p[i / 4].w + p->v.z;
}

// unions
namespace of_unions {
union Bits {
  float f;
  uint u;
  uchar4 b;
};
struct Tagged {
  uint tag;
  union {
    float f;
    int n;
  };
};
}
kernel void unions(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_unions;
  Bits b;
  b.f = x[i];
  b.u |= 0x80000000u;
  Tagged t;
  t.tag = i & 1;
  if (t.tag) t.n = -3;
  else t.f = 2.5f;
  y[i] = b.f + (t.tag ? float(t.n) : t.f);
}

// bit fields
namespace of_bit_fields {
struct Flags {
  uint a : 3;
  uint b : 5;
  int c : 4;
  bool d : 1;
};
}
kernel void bit_fields(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_bit_fields;
  Flags f = {5, 31, -3, true};
  f.a += 4;
  f.b = i;
  y[i] = f.a + f.b * 10 + f.c + f.d + x[i];
}

// inheritance
namespace of_inheritance {
struct Base {
  float v;
  float get() const { return v; }
  float twice() const { return 2 * v; }
};
struct Derived : Base {
  float w;
  Derived(float a, float b) {
    v = a;
    w = b;
  }
  float get() const { return Base::get() + w; }
};
template <typename D> struct Crtp {
  float run(float v) const thread {
    return static_cast<const thread D*>(this)->step(v) + 1;
  }
};
struct Step : Crtp<Step> { float step(float v) const thread { return v * 3; } };
}
kernel void inheritance(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_inheritance;
  Derived d(x[i], 4);
  thread Base& b = d;
  Step s;
  y[i] = d.get() + d.twice() + b.get() + s.run(x[i]);
}

// members of all kinds
namespace of_members_of_all_kinds {
struct Base {
  float v = 1;
  uint n{2};
  constexpr Base() = default;
  constexpr Base(float a) : v(a) {}
  Base(float a, uint b) : Base(a) { n = b; }
};
struct Mixed {
  static constexpr constant int K = 3;
  enum Kind { A, B };
  using value = float;
  struct Inner { value w; };
  Inner in[2];
  Kind kind;
  float3 pad;
  static float s(float a) { return a * K; }
  template <int N> float times() const { return in[0].w * N; }
  friend float of(Mixed m) { return m.in[1].w; }
};
struct Counter {
  thread float* p;
  void operator++() { *p += 1; }
  float operator++(int) {
    float was = *p;
    *p += 1;
    return was;
  }
};
}
kernel void members_of_all_kinds(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_members_of_all_kinds;
  Base a, b(3), c{x[i], 5};
  Mixed m = {{{x[i]}, {4}}, Mixed::B, float3(1)};
  float z = 1;
  Counter k{&z};
  ++k;
  float was = k++;
  y[i] = a.v + a.n + b.v + b.n + c.v + c.n + Mixed::s(2) + m.times<5>() + of(m) + m.kind + m.pad.z +
      was + z + sizeof(Mixed);
}

// operators
namespace of_operators {
struct Complex {
  float re, im;
  Complex operator-() const { return {-re, -im}; }
  thread Complex& operator+=(Complex o) thread {
    re += o.re;
    im += o.im;
    return *this;
  }
  float operator[](uint k) const thread { return k ? im : re; }
  explicit operator bool() const { return re != 0 || im != 0; }
  float operator()(float a, float b = 2) const { return re * a + im * b; }
};
static Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static Complex operator*(float s, Complex a) { return {s * a.re, s * a.im}; }
static bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
}
kernel void operators(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_operators;
  Complex a = {x[i], 1}, b{2, 3};
  Complex c = a * b;
  c += 2.0f * -b;
  y[i] = c[0] + c[1] * 10 + (a ? 1 : 0) + (a == b ? 100 : 0) + a(1) + a(1, 3);
}
