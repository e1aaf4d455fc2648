#include <metal_stdlib>
using namespace metal;
template <int N> struct Fact { enum { value = N * Fact<N - 1>::value }; }; template <> struct Fact<0> { enum { value = 1 }; };
template <int N> inline float pw(float x) { if constexpr (N == 0) return 1; else return x * pw<N - 1>(x); }
template <ushort R, ushort C> struct Mat { float v[R][C]; thread float* operator[](ushort r) thread { return v[r]; } const thread float* operator[](ushort r) const thread { return v[r]; } };
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { Mat<2, 3> m; for (ushort r = 0; r < 2; r++) for (ushort c = 0; c < 3; c++) m[r][c] = r * c; y[i] = pw<3>(2) + Fact<4>::value + m[1][2]; }
