// scan(lanes=64, rows=1, vector=4)
// logaddexp_negative_cumsum_exp: logits -> out; grid (64, 'rows', 1), threadgroup (64, 1, 1)
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
inline float quick_logaddexp(float a, float b) {
  float decay = metal::fast::exp(-metal::abs(a - b));
  float series = metal::fma(-0.25f, decay, 0.33333333f);
  series = metal::fma(series, decay, -0.5f);
  series = metal::fma(series * decay, decay, decay);
  float rest = decay < 0.06f ? series : metal::fast::log(1.0f + decay);
  // Equal infinities would subtract to NaN.
  return metal::isinf(a) && a == b ? a : metal::max(a, b) + rest;
}

// Running sum before each lane of a threadgroup, from `carry` on, which moves behind the last.
template <typename T>
inline T threadgroup_running_sum(
    T value, thread T& carry, threadgroup T* partial, uint simdgroup, uint simdgroups,
    uint simd_lane) {
  value = metal::simd_prefix_inclusive_sum(value);
  T below = metal::simd_shuffle_up(value, 1);
  if (simd_lane == 31) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's total is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  T before = carry;
  for (uint other = 0; other < simdgroups; ++other) {
    before = other == simdgroup ? carry : before;
    carry = carry + partial[other];
  }
  // Every total is read before the next tile's are written.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return simd_lane == 0 ? before : before + below;
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
uint simd_lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
// logits: f16[rows,512]
auto logits_row = logits + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float carry = 0.0f;
threadgroup float partial_sum[2];
for (uint tile = 0; tile < columns; tile += 256) {
  float sums[4];
  float sum = 0.0f;
  uint start = tile + lane * 4;
  auto logits_run = load_run<packed_half4>(logits_row + start);
  for (uint k = 0; k < 4; ++k) {
    sum += -quick_logaddexp(float(logits_run[k]), 0.0f);
    sums[k] = sum;
  }
  float before = threadgroup_running_sum(sum, carry, partial_sum, simdgroup, 2, simd_lane);
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    float running_sum = before + sums[k];
    out_run[k] = half(metal::fast::exp(running_sum));
  }
  *(device packed_half4*)(out_row + start) = out_run;
}
