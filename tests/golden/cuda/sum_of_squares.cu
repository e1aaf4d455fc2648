#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KW_GRID_X 320u
#define KW_GRID_Y 1u
#define KW_GRID_Z 1u
#define KW_GROUP_X 64u
#define KW_GROUP_Y 1u
#define KW_GROUP_Z 1u
#include "kw/scalar.cuh"
#include "kw/vector.cuh"
#include "kw/launch.cuh"
#include "kw/math.cuh"
#include "kw/simdgroup.cuh"
#include "kw/atomic.cuh"
#include "kw/matrix.cuh"
namespace metal {
namespace candidate {
#line 1 "header"

#line 1 "signature"
using T = bfloat;
constexpr int N = 4;
constexpr bool B = 1;
KW_FUNC void body(const bfloat* __restrict__ x, const float& scale, bfloat* __restrict__ y, uint3 threadgroup_position_in_grid, uint simdgroup_index_in_threadgroup, uint thread_index_in_simdgroup, uint thread_index_in_threadgroup) {
constexpr int x_shape[2] = {5, 100};
#line 1 "source"
uint row = threadgroup_position_in_grid.x;
uint columns = x_shape[1];
__shared__ float partial[32];
float sum = 0.0f;
for (uint c = thread_index_in_threadgroup; c < columns; c += 64) {
  float v = float(x[row * columns + c]);
  sum += v * v * scale;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index_in_threadgroup == 0) y[row] = T(partial[0] + partial[1]);

}
}  // namespace candidate
#line 1 "entry"
extern "C" __global__ void __launch_bounds__(kw_full_threads) kw_kernel(const bfloat* __restrict__ x, const float* __restrict__ scale, bfloat* __restrict__ y) {
  if (kw_is_outside()) return;
  candidate::body(x, *scale, y, kw_threadgroup_position_in_grid(), kw_simdgroup_index_in_threadgroup(), kw_thread_index_in_simdgroup(), kw_thread_index_in_threadgroup());
}
}  // namespace metal
