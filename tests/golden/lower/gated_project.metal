// dense(columns=1, strips=8, teams=1, vector=4)
// matmul_sigmoid_multiply: x, weight -> out; grid (256, 1, 1), threadgroup (256, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Exact to a few roundings of float: for results of 16 bits.
inline float quick_sigmoid(float x) {
  return metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-x));
}

uint lane = thread_index_in_simdgroup;
uint strip = simdgroup_index_in_threadgroup;
uint start = (threadgroup_position_in_grid.x * 32 + lane) * 4;
float sums[3][4] = {};
float sums_2[3][4] = {};
if (start < 100) {
  for (uint depth = strip * 64; depth < (strip + 1) * 64; ++depth) {
    float x_values[3];
    for (uint token = 0; token < 3; ++token) {
      x_values[token] = x[token * 512 + depth];
    }
    auto weight_run = load_run<packed_half4>(weight + (depth * 200 + start));
    auto weight_run_2 = load_run<packed_half4>(weight + (depth * 200 + start + 100));
    for (uint i = 0; i < 4; ++i) {
      float weight_value = weight_run[i];
      for (uint token = 0; token < 3; ++token) {
        sums[token][i] += x_values[token] * weight_value;
      }
      float weight_value_2 = weight_run_2[i];
      for (uint token = 0; token < 3; ++token) {
        sums_2[token][i] += x_values[token] * weight_value_2;
      }
    }
  }
}
threadgroup float shared_sums[8][3][128];
threadgroup float shared_sums_2[8][3][128];
for (uint token = 0; token < 3; ++token) {
  for (uint i = 0; i < 4; ++i) {
    shared_sums[strip][token][lane * 4 + i] = sums[token][i];
    shared_sums_2[strip][token][lane * 4 + i] = sums_2[token][i];
  }
}
// Every simdgroup's sums are written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
for (uint place = thread_index_in_threadgroup; place < 384; place += 256) {
  uint token = place / 128;
  uint result = threadgroup_position_in_grid.x * 128 + place % 128;
  if (result < 100) {
    float total = 0.0f;
    for (uint other = 0; other < 8; ++other) {
      total += shared_sums[other][token][place % 128];
    }
    float total_2 = 0.0f;
    for (uint other = 0; other < 8; ++other) {
      total_2 += shared_sums_2[other][token][place % 128];
    }
    out[token * 100 + result] = half(total * quick_sigmoid(total) * total_2);
  }
}
