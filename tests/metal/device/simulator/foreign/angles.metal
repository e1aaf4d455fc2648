#include <metal_stdlib>
using namespace metal;
template <int A, bool B = (A > 2), typename T = vec<float, (A < 4 ? 2 : 4)>> T g(T v) { return B ? v : -v; }
template <typename T> bool less_than(T a, T b) { return a < b; }
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  int a = i, b = 2, c = 1; bool q = a < b && c > a, r = a < (b >> 1) || c>>1 > 0; float2 v = g<3>(float2(1)); array<array<float, 2>, 2> z; z[0][0] = 1;
  y[i] = q + r + v.x + less_than<float>(1, 2) + (a<b>c) + z[0][0];
}
