// matmul(rows=2, columns=2, simdgroups=4, depth=16)
// matmul_add_sigmoid_multiply: x, weight, bias -> out; grid (512, 2, 1), threadgroup (128, 1, 1)
// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}

uint simdgroup = simdgroup_index_in_threadgroup;
metal::simdgroup_matrix<float, 8, 8> sums[2][2];
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  #pragma unroll
  for (uint n = 0; n < 2; ++n) {
    sums[m][n] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
threadgroup half x_tile[256];
threadgroup half weight_tile[1024];
for (uint base = 0; base < 512; base += 16) {
  for (uint place = thread_index_in_threadgroup; place < 256; place += 128) {
    uint token = threadgroup_position_in_grid.y * 16 + place / 16;
    uint depth = base + place % 16;
    x_tile[place] = 0.0f;
    if (token < 20) {
      x_tile[place] = x[token * 512 + depth];
    }
  }
  for (uint place = thread_index_in_threadgroup; place < 1024; place += 128) {
    uint column = threadgroup_position_in_grid.x * 64 + place / 16;
    uint depth = base + place % 16;
    weight_tile[place] = weight[column * 512 + depth];
  }
  // The tiles are written before any simdgroup reads them.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  for (uint inner = 0; inner < 16; inner += 8) {
    metal::simdgroup_matrix<half, 8, 8> left[2];
    #pragma unroll
    for (uint m = 0; m < 2; ++m) {
      metal::simdgroup_load(left[m], x_tile + m * 128 + inner, 16);
    }
    #pragma unroll
    for (uint n = 0; n < 2; ++n) {
      uint first = (simdgroup * 2 + n) * 8;
      metal::simdgroup_matrix<half, 8, 8> right;
      metal::simdgroup_load(right, weight_tile + first * 16 + inner, 16, ulong2(0), true);
      metal::simdgroup_multiply_accumulate(sums[0][n], left[0], right, sums[0][n]);
      metal::simdgroup_multiply_accumulate(sums[1][n], left[1], right, sums[1][n]);
    }
  }
  // They are read before the next ones take their place.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
threadgroup float results[1024];
#pragma unroll
for (uint m = 0; m < 2; ++m) {
  #pragma unroll
  for (uint n = 0; n < 2; ++n) {
    metal::simdgroup_store(sums[m][n], results + m * 512 + (simdgroup * 2 + n) * 8, 64);
  }
}
// Every result is written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint place = thread_index_in_threadgroup; place < 1024; place += 128) {
  uint token = threadgroup_position_in_grid.y * 16 + place / 64;
  uint result = threadgroup_position_in_grid.x * 64 + place % 64;
  if (token < 20) {
    float total = results[place];
    float sum = total + float(bias[result]);
    out[token * 256 + result] = half(sum * quick_sigmoid(sum));
  }
}
