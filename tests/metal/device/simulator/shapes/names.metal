#include <metal_stdlib>
using namespace metal;

// tables
namespace of_tables {
constant float TABLE[2][3] = {{1, 2, 3}, {4, 5, 6}};
constexpr constant uint2 PAIRS[] = {uint2(1, 2), {3, 4}};
struct Row {
  float a;
  uchar n;
};
constant Row ROWS[2] = {{0.5f, 2}, {1.5f, 3}};
static float at(constant float (&row)[3], uint k) { return row[k]; }
}
kernel void tables(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_tables;
  constant float* p = TABLE[1] + 1;
  y[i] = at(TABLE[i & 1], i % 3) + p[-1] + PAIRS[i & 1].y + ROWS[1].a * ROWS[0].n;
}

// overloads by space
namespace of_overloads_by_space {
static float f(thread float& v) { return v += 1; }
static float f(threadgroup float& v) { return v * 2; }
static float f(const device float& v) { return v * 3; }
static float f(constant float& v) { return v * 5; }
static float g(float2 v) { return v.x; }
static float g(float3 v) { return v.z; }
static float g(int2 v) { return -v.y; }
static float g(half v) { return 100; }
static float g(uint v) { return 1000; }
constant float FIVE = 5;
}
kernel void overloads_by_space(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_overloads_by_space;
  threadgroup float s[64];
  s[i] = x[i];
  float t = 4;
  y[i] = f(t) + f(s[i]) + f(x[i]) + f(FIVE) + t + g(float2(1, 2)) + g(float3(1, 2, 3)) + g(int2(4, 5))
      + g(1.0h) + g(7u);
}

// default arguments
namespace of_default_arguments {
static float f(float a, float b = 2, uint c = sizeof(float4)) { return a * b + c; }
template <typename T = int> static T cast(float v, T zero = T(0)) { return T(v) + zero; }
}
kernel void default_arguments(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_default_arguments;
  y[i] = f(x[i]) + f(x[i], 3) + f(1, 2, 3) + cast(x[i] / 2) + cast<float>(0.5f) + cast(1.5f, 2.5f);
}

// enum classes
namespace of_enum_classes {
enum class Op : uchar { Add, Sub = 5, Mul };
enum Plain { A = 1, B = A << 3, Last };
static float apply(Op op, float a, float b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
  }
  return 0;
}
template <Op O> static float fixed(float a) {
  if (O == Op::Mul) return a * 2;
  return a + 2;
}
}
kernel void enum_classes(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_enum_classes;
  Op op = i % 3 == 0 ? Op::Add : i % 3 == 1 ? Op::Sub : static_cast<Op>(6);
  y[i] = apply(op, x[i], 3) + fixed<Op::Mul>(x[i]) + fixed<Op::Add>(1) + uint(Op::Sub) + B + Last;
}

// local types
kernel void local_types(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  struct Local {
    float a, b;
    float sum() const { return a + b; }
  };
  enum { FIRST = 3, SECOND };
  using V = float2;
  constexpr ushort k[3] = {1, 2, 3};
  const float w[2] = {x[i], FIRST};
  Local l{w[0], w[1]};
  V v{1, 2};
  typedef uint N;
  N n = k[i % 3];
  y[i] = l.sum() + SECOND + v.y + n;
  ;
  {}
}

// scopes and shadows
namespace of_scopes_and_shadows {
namespace math {
  namespace deep {
    constant float half_of = 0.5f;
    static float f(float v) { return v * half_of; }
  }
  using deep::f;
  inline namespace v1 { static float g(float v) { return f(v) + 1; } }
}
namespace m = math::deep;
}
kernel void scopes_and_shadows(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_scopes_and_shadows;
  float v = x[i];
  {
    float v = 2;
    y[i] = v;
  }
  for (uint v = 0; v < 2; v++) y[i] += v;
  if (float w = v - 1; w > 0) y[i] += w;
  y[i] += math::f(v) + math::g(v) + m::f(4);
}

// macros
namespace of_macros {
#define OP(name, e) static float name(float a) { return e; }
#define JOIN(a, b) a##b
#define MADE(T, n) static T JOIN(make_, n)(T v) { return v + T(n); }
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
OP(plus_one, a + 1) OP(halved, a / 2) MADE(float, 3) MADE(int, 4)
#ifndef WIDTH
#define WIDTH 4
#endif
#if defined(__METAL_VERSION__) && __METAL_VERSION__ >= 310 && WIDTH > 2
#define GOOD 1
#else
#error "no"
#endif
}
kernel void macros(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_macros;
  float s = 0;
  _Pragma("clang loop unroll(full)") for (int k = 0; k < WIDTH; ++k) s += k;
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) s += x[i];
#pragma clang loop unroll_count(2)
  for (int k = 0; k < 3; ++k) s += plus_one(k);
  y[i] = s + halved(x[i]) + make_3(1) + make_4(2) + MAX_OF(x[i], 5) + GOOD;
}

// attributes of functions
namespace of_attributes_of_functions {
__attribute__((always_inline)) static float a(float v) { return v + 1; }
[[gnu::always_inline]] inline float b(float v) { return v + 2; }
__attribute__((noinline)) static float c(float v) { return v + 3; }
METAL_FUNC float d(float v) { return v + 4; }
static inline __attribute__((always_inline)) constexpr float e(float v) { return v + 5; }
template <typename T> METAL_FUNC T f(T v, [[maybe_unused]] T w = 0) { return v; }
[[nodiscard]] static float g(float v) { return v; }
struct alignas(16) Wide { float v; };
struct __attribute__((packed)) Tight {
  uchar a;
  float b;
};
}
kernel void attributes_of_functions(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_attributes_of_functions;
  [[maybe_unused]] float unused = 3;
  y[i] = a(x[i]) + b(1) + c(1) + d(1) + e(1) + f(2.0f) + g(3) + sizeof(Wide) + alignof(Wide) +
      sizeof(Tight);
}
