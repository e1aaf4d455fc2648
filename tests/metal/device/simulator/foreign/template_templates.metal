#include <metal_stdlib>
using namespace metal;
template <typename T> struct Add { T operator()(T a, T b) const { return a + b; } static constexpr constant T init = T(0); };
template <typename T> struct Max { T operator()(T a, T b) const { return max(a, b); } static constexpr constant T init = numeric_limits<T>::lowest(); };
template <typename T, template <typename> class Op> T fold(device const T* x, uint n) { T a = Op<T>::init; Op<T> op; for (uint i = 0; i < n; i++) a = op(a, x[i]); return a; }
template <typename T, typename... Ts> T first(T a, Ts...) { return a; }
template <typename... Ts> float sum(Ts... v) { return (float(v) + ... + 0.0f); }
template <typename T, enable_if_t<is_floating_point_v<T>, bool> = true> T half_of(T v) { return v / 2; }
template <typename T, enable_if_t<is_integral_v<T>, bool> = true> T half_of(T v) { return v >> 1; }
template <typename T> constant constexpr bool is_wide = sizeof(T) > 2;
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float a = fold<float, Add>(x + i * 4, 4) + first(1.0f, 2, 3) + sum(1, 2.5, 3u) + half_of(4) + half_of(5.0f);
  if constexpr (is_wide<float>) a += 1; y[i] = a;
}
