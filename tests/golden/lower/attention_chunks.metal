// attention(lanes=32, queries=1, simdgroups=8, keys=1, chunks=4)
// attention: q, k, v -> chunk_peaks, chunk_totals, chunk_sums; grid (1024, 3, 8), threadgroup (256, 1, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

uint chunk = threadgroup_position_in_grid.x;
uint block = threadgroup_position_in_grid.y;
uint group = threadgroup_position_in_grid.z;
uint simdgroup = simdgroup_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint start = lane * 4;
// k: bf16[1,8,1000,128]
auto k_group = k + group * 128000;
// v: bf16[1,8,1000,128]
auto v_group = v + group * 128000;
float scaled[4];
auto q_run = load_run<packed_bfloat4>(q + (group * 384 + block * 128 + start));
for (uint i = 0; i < 4; ++i) {
  scaled[i] = float(q_run[i]) * 0.125f;
}
float peak = -FLT_MAX;
float total = 0.0f;
float attended[4] = {};
uint last = metal::min((chunk + 1) * 256, 1000u);
for (uint position = chunk * 256 + simdgroup; position < last; position += 8) {
  float score = 0.0f;
  auto k_run = load_run<packed_bfloat4>(k_group + (position * 128 + start));
  for (uint i = 0; i < 4; ++i) {
    score += scaled[i] * float(k_run[i]);
  }
  float product = metal::simd_sum(score);
  score = position + 3 <= block + 1000 ? product : -INFINITY;
  if (score > peak + 8.0f) {
    float kept = metal::fast::exp(peak - score);
    peak = score;
    total *= kept;
    for (uint i = 0; i < 4; ++i) {
      attended[i] *= kept;
    }
  }
  score = metal::fast::exp(score - peak);
  total += score;
  auto v_run = load_run<packed_bfloat4>(v_group + (position * 128 + start));
  for (uint i = 0; i < 4; ++i) {
    attended[i] += score * float(v_run[i]);
  }
}
threadgroup float partial_peak[8];
threadgroup float partial_total[8];
threadgroup float partial_value[8][128];
if (thread_index_in_simdgroup == 0) {
  partial_peak[simdgroup] = peak;
  partial_total[simdgroup] = total;
}
for (uint i = 0; i < 4; ++i) {
  partial_value[simdgroup][start + i] = attended[i];
}
// Every simdgroup's part is written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
uint column = thread_index_in_threadgroup;
if (column < 128) {
  float row_peak = partial_peak[0];
  for (uint part = 1; part < 8; ++part) {
    row_peak = metal::max(row_peak, partial_peak[part]);
  }
  float row_total = 0.0f;
  float value_sum = 0.0f;
  for (uint part = 0; part < 8; ++part) {
    float weight = metal::fast::exp(partial_peak[part] - row_peak);
    row_total += partial_total[part] * weight;
    value_sum += partial_value[part][column] * weight;
  }
  uint entry = group * 12 + block * 4 + chunk;
  chunk_sums[entry * 128 + column] = value_sum;
  if (column == 0) {
    chunk_peaks[entry] = row_peak;
    chunk_totals[entry] = row_total;
  }
}
// attention_merge: sinks, chunk_peaks, chunk_totals, chunk_sums -> out; grid (128, 24, 1), threadgroup (128, 2, 1)

uint column = thread_position_in_grid.x;
uint row = thread_position_in_grid.y;
float sinks_value = sinks[row / 3];
float row_peak = sinks_value;
for (uint part = 0; part < 4; ++part) {
  row_peak = metal::max(row_peak, chunk_peaks[row * 4 + part]);
}
float row_total = metal::fast::exp(sinks_value - row_peak);
float value_sum = 0.0f;
for (uint part = 0; part < 4; ++part) {
  float weight = metal::fast::exp(chunk_peaks[row * 4 + part] - row_peak);
  row_total += chunk_totals[row * 4 + part] * weight;
  value_sum += chunk_sums[(row * 4 + part) * 128 + column] * weight;
}
float result = value_sum / row_total;
out[row * 128 + column] = bfloat16_t(result);
