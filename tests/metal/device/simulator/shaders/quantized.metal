#include <metal_stdlib>
using namespace metal;
#define QK4_0 32
#define N_SIMDWIDTH 32
typedef struct { half d; uint8_t qs[QK4_0 / 2]; } block_q4_0;
typedef struct { half d, m; uint8_t qh[4]; uint8_t qs[16]; } block_q5_1;
static_assert(sizeof(block_q4_0) == sizeof(half) + 16, "wrong q4_0 block size/padding");
template <typename type4x4> void dequantize_q4_0(device const block_q4_0 *xb, short il, thread type4x4 & reg) {
  device const uint16_t * qs = ((device const uint16_t *)xb + 1);
  const float d1 = il ? (xb->d / 16.h) : xb->d; const float d2 = d1 / 256.f; const float md = -8.h * xb->d;
  const ushort mask0 = il ? 0x00F0 : 0x000F; const ushort mask1 = mask0 << 8;
  for (int i = 0; i < 8; i++) { reg[i/2][2*(i%2)+0] = d1 * (qs[i] & mask0) + md; reg[i/2][2*(i%2)+1] = d2 * (qs[i] & mask1) + md; }
}
template <typename block_q, short nl, void (*dequantize_func)(device const block_q *, short, thread float4x4 &)>
kernel void kernel_get_rows_q(device const void * src0, device const char * src1, device float * dst, constant int64_t & ne00, constant uint64_t & nb01, uint3 tgpig[[threadgroup_position_in_grid]], uint tiitg[[thread_index_in_threadgroup]], uint3 tptg [[threads_per_threadgroup]]) {
  const int64_t r = ((const device int32_t *) src1)[tgpig.x];
  for (int64_t ind = tiitg; ind < ne00/16; ind += tptg.x) {
    float4x4 temp;
    dequantize_func(((device const block_q *) ((const device char *) src0 + r*nb01)) + ind/nl, ind%nl, temp);
    *(((device float4x4 *) ((device char *) dst + tgpig.x*ne00*4)) + ind) = temp;
  }
}
typedef decltype(kernel_get_rows_q<block_q4_0, 2, dequantize_q4_0>) get_rows_q_t;
template [[host_name("kernel_get_rows_q4_0")]] kernel get_rows_q_t kernel_get_rows_q<block_q4_0, 2, dequantize_q4_0>;
kernel void kernel_rms_norm(device const void * src0, device float * dst, constant int64_t & ne00, constant float & eps, threadgroup float * buf [[threadgroup(0)]], uint tgpig[[threadgroup_position_in_grid]], uint tpitg[[thread_position_in_threadgroup]], uint sgitg[[simdgroup_index_in_threadgroup]], uint tiisg[[thread_index_in_simdgroup]], uint ntg[[threads_per_threadgroup]]) {
  device const float4 * x = (device const float4 *) ((device const char *) src0 + tgpig*ne00*4);
  float4 sumf = 0; float all_sum = 0;
  for (int i00 = tpitg; i00 < ne00/4; i00 += ntg) sumf += x[i00] * x[i00];
  all_sum = sumf[0] + sumf[1] + sumf[2] + sumf[3];
  all_sum = simd_sum(all_sum);
  if (ntg > N_SIMDWIDTH) {
    if (sgitg == 0) buf[tiisg] = 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tiisg == 0) buf[sgitg] = all_sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    all_sum = buf[tiisg]; all_sum = simd_sum(all_sum);
  }
  const float scale = 1.0f/sqrt(all_sum/ne00 + eps);
  device float4 * y = (device float4 *) (dst + tgpig*ne00);
  for (int i00 = tpitg; i00 < ne00/4; i00 += ntg) y[i00] = x[i00] * scale;
}
