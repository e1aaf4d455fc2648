#include <metal_stdlib>
using namespace metal;
struct A { const device float* p; const int n, m; float v[2]{1, 2}; thread float& r; A(const device float* p_, int n_, thread float& r_ [[maybe_unused]]) : p(p_ + n_ * 2), n{n_}, m(n_ < 3 ? 1 : n_ * 2), r(r_) {} };
template <typename T> struct B : public A { using A::A; T extra = T(3); B(const device float* p, int n, thread float& r) : A(p, n, r), extra(T(n) * 2) {} };
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { float q = 1; A a(x, 1, q); B<half> b(x, 2, q); a.r += 1; y[i] = a.n + a.m + b.extra + a.v[1] + q + b.m; }
