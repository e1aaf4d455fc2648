#include <metal_stdlib>
using namespace metal;
#define QK4_0 32
#define N_SIMDWIDTH 32
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define SWAP(x, y) { auto tmp = (x); (x) = (y); (y) = tmp; }
#define FOR_UNROLL(x) _Pragma("clang loop unroll(full)") for (x)
typedef struct { half d; uint8_t qs[QK4_0 / 2]; } block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");
typedef struct { int32_t ne00; int32_t ne01; uint64_t nb01; } args_t;
template <typename type4x4> void dequantize_q4_0(device const block_q4_0 * xb, short il, thread type4x4 & reg) {
    device const uint16_t * qs = ((device const uint16_t *)xb + 1);
    const float d1 = il ? (xb->d / 16.h) : xb->d; const float d2 = d1 / 256.f; const float md = -8.h * xb->d; const ushort mask0 = il ? 0x00F0 : 0x000F; const ushort mask1 = mask0 << 8;
    float4x4 reg_f;
    for (int i = 0; i < 8; i++) { reg_f[i/2][2*(i%2) + 0] = d1 * (qs[i] & mask0) + md; reg_f[i/2][2*(i%2) + 1] = d2 * (qs[i] & mask1) + md; }
    reg = (type4x4) reg_f;
}
template<typename block_q, short nl, void (*dequantize_func)(device const block_q *, short, thread float4x4 &)>
kernel void kernel_get_rows(constant args_t & args, device const void * src0, device const char * src1, device char * dst, uint3 tgpig[[threadgroup_position_in_grid]], ushort tiitg[[thread_index_in_threadgroup]], ushort3 ntg [[threads_per_threadgroup]]) {
    const int64_t r = ((const device int32_t *) src1)[tgpig.x];
    for (int64_t ind = tiitg; ind < args.ne00 / 16; ind += ntg.x) { float4x4 temp; dequantize_func(((device const block_q *) ((const device char *) src0 + r * args.nb01)) + ind / nl, ind % nl, temp); *(((device float4x4 *) ((device char *) dst + tgpig.x * args.ne00 * 4)) + ind) = temp; }
}
typedef decltype(kernel_get_rows<block_q4_0, 2, dequantize_q4_0>) get_rows_q_t;
template [[host_name("kernel_get_rows_q4_0")]] kernel get_rows_q_t kernel_get_rows<block_q4_0, 2, dequantize_q4_0>;
kernel void kernel_soft_max(device const char * src0, device char * dst, constant int32_t & ne00, threadgroup float * buf [[threadgroup(0)]], uint3 tgpig[[threadgroup_position_in_grid]], uint3 tpitg[[thread_position_in_threadgroup]], uint sgitg[[simdgroup_index_in_threadgroup]], uint tiisg[[thread_index_in_simdgroup]], uint3 tptg[[threads_per_threadgroup]]) {
    device const float * psrc0 = (device const float *) src0 + tgpig.x * ne00; device float * pdst = (device float *) dst + tgpig.x * ne00;
    float lmax = -INFINITY; FOR_UNROLL (int i00 = tpitg.x; i00 < ne00; i00 += tptg.x) { lmax = MAX(lmax, psrc0[i00]); }
    float max_val = simd_max(lmax);
    if (tptg.x > N_SIMDWIDTH) { if (sgitg == 0) { buf[tiisg] = -INFINITY; } threadgroup_barrier(mem_flags::mem_threadgroup); if (tiisg == 0) { buf[sgitg] = max_val; } threadgroup_barrier(mem_flags::mem_threadgroup); max_val = buf[tiisg]; max_val = simd_max(max_val); }
    float lsum = 0.0f; for (int i00 = tpitg.x; i00 < ne00; i00 += tptg.x) { const float e = exp(psrc0[i00] - max_val); lsum += e; pdst[i00] = e; }
    float a = 1, b = 2; SWAP(a, b);
    pdst[tpitg.x] += (lsum + a + b) * 0;
}
