#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
template <typename T, int BQ, int BK, int D>
[[kernel, max_total_threads_per_threadgroup(128)]] void flash(const device T* Q [[buffer(0)]], const device T* K [[buffer(1)]], const device T* V [[buffer(2)]], device T* O [[buffer(3)]], const constant int& L [[buffer(4)]], const constant float& scale [[buffer(5)]],
  uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], uint3 tid [[threadgroup_position_in_grid]]) {
  constexpr int kFrag = 8; using Frag = simdgroup_matrix<float, kFrag, kFrag>;
  static_assert(D % kFrag == 0 && BK % kFrag == 0, "tiles");
  threadgroup T Ks[BK * D]; threadgroup T Vs[BK * D]; threadgroup float Ss[BQ][BK]; threadgroup float m_s[BQ], l_s[BQ], a_s[BQ]; threadgroup float Os[BQ * D];
  const uint t = sg * 32 + lane; const int q0 = tid.x * BQ;
  for (uint i = t; i < BQ * D; i += 128) Os[i] = 0;
  if (t < BQ) { m_s[t] = -INFINITY; l_s[t] = 0; }
  for (int k0 = 0; k0 < L; k0 += BK) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = t; i < BK * D; i += 128) { Ks[i] = K[k0 * D + i]; Vs[i] = V[k0 * D + i]; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int f = sg; f < (BQ / kFrag) * (BK / kFrag); f += 4) {
      int fy = f / (BK / kFrag), fx = f % (BK / kFrag); Frag acc = Frag(0);
      for (int d = 0; d < D; d += kFrag) { simdgroup_matrix<T, 8, 8> a, b; simdgroup_load(a, Q + (q0 + fy * 8) * D + d, D); simdgroup_load(b, Ks + fx * 8 * D + d, D, ulong2(0), true); simdgroup_multiply_accumulate(acc, a, b, acc); }
      simdgroup_store(acc, &Ss[fy * 8][fx * 8], BK);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < BQ) { float m = m_s[t]; for (int j = 0; j < BK; ++j) m = max(m, Ss[t][j] * scale); float a = m_s[t] == -INFINITY ? 0 : fast::exp(m_s[t] - m); float l = l_s[t] * a; for (int j = 0; j < BK; ++j) { float p = fast::exp(Ss[t][j] * scale - m); Ss[t][j] = p; l += p; } m_s[t] = m; l_s[t] = l; a_s[t] = a; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = t; i < BQ * D; i += 128) { uint r = i / D, c = i % D; float o = Os[i] * a_s[r]; for (int j = 0; j < BK; ++j) o = fma(Ss[r][j], float(Vs[j * D + c]), o); Os[i] = o; }
  }
  threadgroup_barrier(mem_flags::mem_none | mem_flags::mem_threadgroup);
  for (uint i = t; i < BQ * D; i += 128) O[q0 * D + i] = T(Os[i] / l_s[i / D]);
}
#define inst(name, type, bq, bk, d) template [[host_name("flash_" #name "_" #d)]] [[kernel]] void flash<type, bq, bk, d>(const device type* Q [[buffer(0)]], const device type* K [[buffer(1)]], const device type* V [[buffer(2)]], device type* O [[buffer(3)]], const constant int& L [[buffer(4)]], const constant float& scale [[buffer(5)]], uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], uint3 tid [[threadgroup_position_in_grid]]);
inst(f32, float, 16, 16, 32)
inst(f16, half, 16, 16, 64)
