// rowwise(lanes=128, rows=1, vector=4, cached=1)
// cast_mean_subtract_square_add_rsqrt_multiply_div: x, weight, bias -> out; grid (128, 'rows', 1), threadgroup (128, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// Sum over a threadgroup of whole simdgroups; `partial` has a place for each.
template <typename T>
inline T threadgroup_sum(
    T value, threadgroup T* partial, uint simdgroup, uint simdgroups, uint simd_lane) {
  value = metal::simd_sum(value);
  if (simd_lane == 0) {
    partial[simdgroup] = value;
  }
  // Every simdgroup's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return metal::simd_sum(simd_lane < simdgroups ? partial[simd_lane] : T(0));
}

// The error function to about one unit in the last place: a minimax polynomial in x * x below
// 1, and one of log(1 - erf(x)) above.
inline float erf_of(float x) {
  float t = metal::abs(x);
  if (t < 1.0f) {
    float s = x * x;
    float p = 7.889119e-05f;
    p = metal::fma(p, s, -8.020841e-04f);
    p = metal::fma(p, s, 5.189535e-03f);
    p = metal::fma(p, s, -2.6854444e-02f);
    p = metal::fma(p, s, 0.112836f);
    p = metal::fma(p, s, -0.37612626f);
    p = metal::fma(p, s, 0.12837917f);
    return metal::fma(x, p, x);
  }
  // erf(4) rounds to 1; the clamp keeps NaN, which metal::min would drop.
  t = t > 4.0f ? 4.0f : t;
  float p = 1.8607174e-06f;
  p = metal::fma(p, t, -3.0197858e-05f);
  p = metal::fma(p, t, 1.9180648e-04f);
  p = metal::fma(p, t, -4.2188022e-04f);
  p = metal::fma(p, t, -2.0040323e-03f);
  p = metal::fma(p, t, 0.021538997f);
  p = metal::fma(p, t, -0.10441471f);
  p = metal::fma(p, t, -0.63597834f);
  p = metal::fma(p, t, -1.128489f);
  return metal::copysign(1.0f - metal::precise::exp(p * t), x);
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
uint simd_lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
// x: f16[rows,512]
auto x_row = x + row * columns;
// out: f16[rows,512]
auto out_row = out + row * columns;
float x_values[4];
float total = 0.0f;
uint start = lane * 4;
auto x_run = load_run<packed_half4>(x_row + start);
for (uint k = 0; k < 4; ++k) {
  x_values[k] = x_run[k];
  total += x_values[k];
}
threadgroup float partial_total[4];
total = threadgroup_sum(total, partial_total, simdgroup, 4, simd_lane);
float mean = total / columns;
float total_2 = 0.0f;
for (uint k = 0; k < 4; ++k) {
  float difference = x_values[k] - mean;
  total_2 += difference * difference;
}
threadgroup float partial_total_2[4];
total_2 = threadgroup_sum(total_2, partial_total_2, simdgroup, 4, simd_lane);
float inverse_root = metal::precise::rsqrt(total_2 / columns + 1e-05f);
auto weight_run = load_run<packed_half4>(weight + start);
auto bias_run = load_run<packed_half4>(bias + start);
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  float sum = (x_values[k] - mean) * inverse_root * float(weight_run[k]) + float(bias_run[k]);
  out_run[k] = half(sum * (erf_of(sum * 0.70718235f) + 1.0f) * 0.5f);
}
*(device packed_half4*)(out_row + start) = out_run;
