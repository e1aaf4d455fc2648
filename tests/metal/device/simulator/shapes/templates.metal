#include <metal_stdlib>
using namespace metal;

// template ints
namespace of_template_ints {
template <int N, bool Negate, typename T = float> struct Poly {
  static T at(T v) {
    T s = 0;
    for (int k = N; k >= 0; k--) s = s * v + T(k);
    return Negate ? -s : s;
  }
};
template <> struct Poly<0, true> { static float at(float) { return 7; } };
}
kernel void template_ints(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_template_ints;
  y[i] = Poly<2, false>::at(x[i]) + Poly<1, true, float>::at(x[i]) + Poly<0, true>::at(x[i]);
}

// templates over spaces
namespace of_templates_over_spaces {
template <typename P> static float total(P p, uint n) {
  float s = 0;
  for (uint k = 0; k < n; ++k) s += p[k];
  return s;
}
template <typename T> static void exchange(threadgroup T& a, threadgroup T& b) {
  T t = a;
  a = b;
  b = t;
}
template <typename T, typename U> static U first(const T p) { return U(*p); }
}
kernel void templates_over_spaces(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_templates_over_spaces;
  threadgroup float s[64];
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i < 32) exchange(s[i], s[63 - i]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float own[3] = {1, 2, x[i]};
  y[i] = total(x, 4) + total(own, 3) + total(s + i, i == 63 ? 1 : 2) + first<const device float*,
      int>(x + 1);
}

// functions as template arguments
namespace of_functions_as_template_arguments {
static float twice(float v) { return v * 2; }
static float less(float v) { return v - 1; }
template <float (*F)(float)> static float apply(float v) { return F(F(v)); }
template <typename F> static float call(F f, float v) { return f(v); }
struct Square { float operator()(float v) const { return v * v; } };
}
kernel void functions_as_template_arguments(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_functions_as_template_arguments;
  y[i] = apply<twice>(x[i]) + apply<less>(x[i]) + call(Square(), x[i]) + call(Square{}, 2);
}

// constexpr functions
namespace of_constexpr_functions {
constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static_assert(fib(10) == 55, "fib");
constexpr constant int SIZE = fib(6);
template <int N> struct Log2 {
  static constexpr constant int value = 1 + Log2<N / 2>::value;
};
template <> struct Log2<1> { static constexpr constant int value = 0; };
}
kernel void constexpr_functions(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_constexpr_functions;
  float a[SIZE];
  for (int k = 0; k < SIZE; k++) a[k] = k * x[i];
  constexpr float t[] = {0.5f, 1.5f};
  y[i] = a[fib(5)] + Log2<64>::value + t[i & 1] + sizeof(a) / sizeof(a[0]);
}

// variadic
namespace of_variadic {
template <typename T> static T sum(T v) { return v; }
template <typename T, typename... R> static T sum(T v, R... rest) {
  return v + sum(rest...);
}
template <typename... T> static float product(T... v) { return (v * ... * 1.0f); }
template <typename T> static float kind(T v) {
  if constexpr (is_same_v<T, half>) return 1;
  else if constexpr (is_integral_v<T>) return 2;
  else return v;
}
}
kernel void variadic(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_variadic;
  y[i] = sum(x[i], 2, 3.5f) + product(x[i], 2, 3u) + kind(1.0h) + kind(5u) + kind(x[i]);
}

// enable_if and traits
namespace of_enable_if_and_traits {
template <typename T, typename = enable_if_t<is_integral_v<T>>> static T half_of(T v) {
  return v >> 1;
}
template <typename T, enable_if_t<is_floating_point<T>::value, bool> = true> static T half_of(T v) {
  return v / 2;
}
template <typename T> struct Promote { using type = T; };
template <> struct Promote<half> { using type = float; };
template <typename T, int N> struct Promote<vec<T, N>> { using type = vec<typename Promote<T>::type,
    N>; };
template <typename T> using promoted = typename Promote<T>::type;
template <bool B> struct Tag {};
static float pick(Tag<true>) { return 1; }
static float pick(Tag<false>) { return 2; }
template <typename T> static auto scaled(T v) -> decltype(v * 2.0f) { return v * 2.0f; }
template <typename A, typename B> static auto larger(A a, B b) { return a > b ? a : b; }
template <typename T, template <typename> class F> static T through(T v) {
  return F<T>()(v);
}
template <typename T> struct Inc { T operator()(T v) const { return v + 1; } };
}
kernel void enable_if_and_traits(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_enable_if_and_traits;
  promoted<half2> p = promoted<half2>(half2(1, 2));
  conditional_t<(sizeof(p) > 4), float, int> c = 1.5f;
  y[i] = half_of(7u) + half_of(x[i]) + p.y + c + pick(Tag<is_same_v<half, float>>()) +
      pick(Tag<sizeof(half) == 2>{}) + scaled(x[i]) + larger(3, 2.5f) + through<float, Inc>(x[i]) +
      is_same<decltype(p), float2>::value + is_pointer_v<thread int*>;
}

// aliases
namespace of_aliases {
template <typename T, int N> static T total(vec<T, N> v) {
  T s = 0;
  for (int k = 0; k < N; k++) s += v[k];
  return s;
}
template <int N> using floatn = vec<float, N>;
typedef float Row[4];
using Pointer = const device float*;
using namespace metal::fast;
}
kernel void aliases(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_aliases;
  floatn<3> v = floatn<3>(x[i], 2, 3);
  Row r = {1, 2, 3, 4};
  Pointer p = x + i;
  vec<int, 2> n = vec<int, 2>(4, 5);
  metal::vec<half, 4> h(1.0h);
  y[i] = total(v) + total(n) + r[i & 3] + *p + float(total(h));
}

// lambdas
kernel void lambdas(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float k = 3;
  auto f = [](float a, float b) { return a * b + 1; };
  auto g = [=](float a) -> float { return f(a, k); };
  auto h = [&k](float a) { k += a; };
  h(2);
  y[i] = g(x[i]) + k;
}
