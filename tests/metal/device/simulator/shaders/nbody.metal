#include <metal_stdlib>
using namespace metal;
#define TILE 64
struct Body { float4 pos_mass; float4 vel; };
struct SimParams { uint count; float dt; float softening2; uint3 pad; };
inline float3 body_body(float3 ai, float4 bi, float4 bj, float eps2) {
  float3 r = bj.xyz - bi.xyz;
  float d2 = dot(r, r) + eps2;
  float inv = rsqrt(d2);
  return fma(r, bj.w * inv * inv * inv, ai);
}
[[kernel, max_total_threads_per_threadgroup(TILE)]]
void nbody_step(device const Body *in [[buffer(0)]], device Body *out [[buffer(1)]], constant SimParams &params [[buffer(2)]],
                uint gid [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]], uint tcount [[threads_per_threadgroup]]) {
  threadgroup float4 shared_pos[TILE];
  const Body self = in[min(gid, params.count - 1)];
  float3 acc{0.f};
  const uint tiles = (params.count + tcount - 1) / tcount;
  for (uint t = 0; t < tiles; ++t) {
    const uint idx = t * tcount + tid;
    shared_pos[tid] = idx < params.count ? in[idx].pos_mass : float4(0);
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll(8)
    for (uint j = 0; j < tcount; ++j) acc = body_body(acc, self.pos_mass, shared_pos[j], params.softening2);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (gid >= params.count) return;
  float3 v = self.vel.xyz + acc * params.dt;
  out[gid] = Body{ float4(self.pos_mass.xyz + v * params.dt, self.pos_mass.w), float4(v, 0.0) };
}
