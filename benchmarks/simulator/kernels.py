"""The kernels that the figures are about, each compiled alone as MLX does."""

_HEAD = """#include <metal_stdlib>
using namespace metal;
"""

_BODIES = {
    "silu": """
kernel void silu(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  float v = x[i];
  y[i] = v / (1.0f + exp(-v));
}
""",
    "multiply_add": """
kernel void multiply_add(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) {
  y[i] = fma(x[i], 3.0f, 1.0f);
}
""",
    "softmax": """
// One threadgroup of 256 a row; two simdgroup operations and three barriers.
kernel void softmax(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                    constant uint& n [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
                    uint l [[thread_index_in_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float most[8], sums[8];
  float v[4], high = -INFINITY;
  for (uint k = 0; k < 4; k++) {
    v[k] = x[row * n + k * 256 + l];
    high = max(high, v[k]);
  }
  high = simd_max(high);
  if (lane == 0) most[simdgroup] = high;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < 8; k++) high = max(high, most[k]);
  float sum = 0;
  for (uint k = 0; k < 4; k++) {
    v[k] = exp(v[k] - high);
    sum += v[k];
  }
  sum = simd_sum(sum);
  if (lane == 0) sums[simdgroup] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0;
  for (uint k = 0; k < 8; k++) sum += sums[k];
  for (uint k = 0; k < 4; k++) y[row * n + k * 256 + l] = v[k] / sum;
}
""",
    "row_sum": """
// One threadgroup of 256 a row; ten barriers.
kernel void row_sum(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                    constant uint& n [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
                    uint l [[thread_index_in_threadgroup]]) {
  threadgroup float shared[256];
  float sum = 0;
  for (uint k = l; k < n; k += 256) sum += x[row * n + k];
  shared[l] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 128; k > 0; k /= 2) {
    if (l < k) shared[l] += shared[l + k];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (l == 0) y[row] = shared[0];
}
""",
    "gemm": """
// Each simdgroup makes a tile of 32 x 32 of C[n, n] = A[n, n] B[n, n].
kernel void gemm(const device half* a [[buffer(0)]], const device half* b [[buffer(1)]],
                 device half* c [[buffer(2)]], constant uint& n [[buffer(3)]],
                 uint2 tile [[threadgroup_position_in_grid]]) {
  simdgroup_matrix<half, 8, 8> left[4], right[4];
  simdgroup_matrix<float, 8, 8> sums[4][4];
  for (uint i = 0; i < 4; i++)
    for (uint j = 0; j < 4; j++) sums[i][j] = simdgroup_matrix<float, 8, 8>(0);
  for (uint k = 0; k < n; k += 8) {
    for (uint i = 0; i < 4; i++) {
      simdgroup_load(left[i], a + (tile.y * 32 + i * 8) * n + k, n);
      simdgroup_load(right[i], b + k * n + tile.x * 32 + i * 8, n);
    }
    for (uint i = 0; i < 4; i++)
      for (uint j = 0; j < 4; j++)
        simdgroup_multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
  }
  for (uint i = 0; i < 4; i++)
    for (uint j = 0; j < 4; j++) {
      simdgroup_matrix<half, 8, 8> result;
      for (uint e = 0; e < 2; e++)
        result.thread_elements()[e] = half(sums[i][j].thread_elements()[e]);
      simdgroup_store(result, c + (tile.y * 32 + i * 8) * n + tile.x * 32 + j * 8, n);
    }
}
""",
}

_BODIES["bias_gelu"] = """
kernel void bias_gelu(const device float* x [[buffer(0)]], const device float* bias [[buffer(1)]],
                      device float* y [[buffer(2)]], constant uint& n [[buffer(3)]],
                      uint i [[thread_position_in_grid]]) {
  float v = x[i] + bias[i % n];
  y[i] = 0.5f * v * (1.0f + precise::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
}
"""

TEXTS = {name: _HEAD + body for name, body in _BODIES.items()}
_POSITION = "uint i [[thread_position_in_grid]]) {"


def one_by_one(text: str) -> str:
    """Return a text whose elementwise kernel runs in a loop that calls it once for each thread.

    A barrier that is never reached keeps the compiler from a loop over threads, and so from
    vector instructions: what instrumented builds, which have none, are fairly compared with.
    """
    never = " if (false) threadgroup_barrier(mem_flags::mem_none);"
    return text.replace(_POSITION, _POSITION + never)
