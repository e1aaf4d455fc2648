// dense(columns=4, strips=1, teams=4, vector=4)
// matmul_add_sigmoid_multiply: x, weight, bias -> out; grid (2048, 1, 1), threadgroup (128, 1, 1)
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
uint team = simdgroup_index_in_threadgroup;
uint first = (threadgroup_position_in_grid.x * 4 + team) * 4;
float sums[4] = {};
for (uint start = lane * 4; start < 512; start += 128) {
  float x_values[4];
  auto x_run = load_run<packed_half4>(x + start);
  for (uint i = 0; i < 4; ++i) {
    x_values[i] = x_run[i];
  }
  for (uint c = 0; c < 4; ++c) {
    uint column = first + c;
    auto weight_run = load_run<packed_half4>(weight + (column * 512 + start));
    for (uint i = 0; i < 4; ++i) {
      sums[c] += x_values[i] * float(weight_run[i]);
    }
  }
}
threadgroup float shared_sums[16];
for (uint c = 0; c < 4; ++c) {
  sums[c] = metal::simd_sum(sums[c]);
  if (lane == 0) {
    shared_sums[team * 4 + c] = sums[c];
  }
}
// Every simdgroup's sums are written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
uint place = thread_index_in_threadgroup;
if (place < 16) {
  uint result = threadgroup_position_in_grid.x * 16 + place;
  float total = shared_sums[place];
  float sum = total + float(bias[result]);
  out[result] = half(sum * quick_sigmoid(sum));
}
