#include <metal_stdlib>
using namespace metal;
template <typename A, typename B> common_type_t<A, B> larger(A a, B b) { return a > b ? a : b; }
kernel void local_classes(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  struct Pair {
    float a; int b[2]; struct { half c, d; } e;
    float get() const { return a + b[1]; }
    static float two() { return 2; }
  } p = {y[i], {1, 2}, {3, 4}};
  struct { const constant float* at; thread float* own; } q = {nullptr, &p.a};
  static_assert(rank_v<int[2][3]> == 2 && extent_v<int[2][3], 1> == 3 && extent<int[4]>::value == 4);
  static_assert(is_same_v<common_type_t<half, float, int>, float>, "the widest");
  y[i] = p.get() + Pair::two() + *q.own + larger(p.e.c, p.a) + (q.at == nullptr);
}
