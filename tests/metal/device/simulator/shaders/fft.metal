#include <metal_stdlib>
using namespace metal;
constexpr constant float kTau = 2 * M_PI_F;
typedef float2 cplx;
static inline cplx cmul(cplx a, cplx b) { return cplx(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
static inline cplx twiddle(uint k, uint n) { float c; float s = sincos(-kTau * float(k) / float(n), c); return { c, s }; }
template <ushort R> struct Radix;
template <> struct Radix<2> { static void run(thread cplx (&v)[2]) { cplx t = v[0] - v[1]; v[0] += v[1]; v[1] = t; } };
template <> struct Radix<4> {
  static void run(thread cplx (&v)[4]) {
    cplx a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = v[1] - v[3];
    cplx dj = cplx(d.y, -d.x);
    v[0] = a + c; v[1] = b + dj; v[2] = a - c; v[3] = b - dj;
  }
};
template <ushort N, ushort R>
void stage(thread cplx (&v)[R], threadgroup cplx *buf, uint j, uint ns) {
  const uint k = j % ns;
  _Pragma("unroll") for (ushort r = 0; r < R; ++r) v[r] = cmul(buf[j + r * (N / R)], twiddle(r * k, ns * R));
  Radix<R>::run(v);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint base = (j / ns) * ns * R + k;
  for (ushort r = 0; r < R; ++r) buf[base + r * ns] = v[r];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
template <ushort N>
kernel void fft(device const float2 *x [[buffer(0)]], device float2 *y [[buffer(1)]], threadgroup float2 *buf [[threadgroup(0)]],
                uint j [[thread_position_in_threadgroup]], uint row [[threadgroup_position_in_grid]]) {
  for (ushort r = 0; r < 4; ++r) buf[j + r * (N / 4)] = x[row * N + j + r * (N / 4)];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  cplx v[4];
  for (uint ns = 1; ns < N; ns *= 4) stage<N, 4>(v, buf, j, ns);
  for (ushort r = 0; r < 4; ++r) y[row * N + j + r * (N / 4)] = buf[j + r * (N / 4)];
}
#define instantiate_fft(n) template [[host_name("fft_" #n)]] kernel void fft<n>(device const float2 *, device float2 *, threadgroup float2 *, uint, uint);
instantiate_fft(64)
instantiate_fft(256)
