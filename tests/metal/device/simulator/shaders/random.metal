#include <metal_stdlib>
using namespace metal;
class Philox {
 public:
  Philox(uint2 key, uint4 ctr) thread : key_(key), ctr_(ctr) {}
  uint4 operator()() thread { uint4 c = ctr_; uint2 k = key_; for (int r = 0; r < 10; ++r) { c = round(c, k); k += uint2(0x9E3779B9u, 0xBB67AE85u); } ++ctr_.x; return c; }
 private:
  static uint4 round(uint4 c, uint2 k) { uint h0 = mulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = mulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z; return uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0); }
  uint2 key_; uint4 ctr_;
};
static inline float2 box_muller(uint a, uint b) { float u = float(a >> 8) * 0x1p-24f, v = (b >> 8) * (1.f / 16777216.f); float r = precise::sqrt(-2 * precise::log(1 - u)); float c; float s = precise::sincos(2 * M_PI_F * v, c); return r * float2(c, s); }
kernel void monte_carlo_pi(device atomic_uint* hits [[buffer(0)]], constant uint& seed [[buffer(1)]], uint gid [[thread_position_in_grid]], uint grid [[threads_per_grid]], uint simd_size [[threads_per_simdgroup]]) {
  Philox rng(uint2(seed, 42), uint4(gid, 0, 0, grid));
  uint n = 0;
  for (int i = 0; i < 16; ++i) { uint4 r = rng(); float2 p = float2(r.xy >> 8) / 16777216.0; n += length_squared(p) < 1.0; p = float2(r.zw) * 0x1.0p-32; n += dot(p, p) < 1 ? 1 : 0; }
  n = simd_sum(n);
  if (simd_is_first()) atomic_fetch_add_explicit(hits, n, memory_order_relaxed);
}
kernel void normals(device float2* out [[buffer(0)]], uint gid [[thread_position_in_grid]]) { Philox rng{uint2(1, 2), uint4(gid)}; const uint4 r = rng(); out[gid] = box_muller(r.x, r.w); }
