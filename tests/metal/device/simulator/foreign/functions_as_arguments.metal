#include <metal_stdlib>
using namespace metal;
float sq(float x) { return x * x; } float cu(float x) { return x * x * x; }
template <float (*F)(float)> float apply(float x) { return F(x); }
template <float F(float)> float apply2(float x) { return F(x); }
template <typename F> float call(F f, float x) { return f(x); }
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = apply<sq>(2) + apply<cu>(2) + apply2<sq>(3) + call([](float v) { return v; }, 1); }
