// rowwise(lanes=32, rows=4, vector=4, cached=0, online=1)
// max_subtract_logsumexp_gather_axis: logits, targets -> out; grid (32, 'rows', 1), threadgroup (32, 4, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

constexpr uint columns = 512;
uint row = thread_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
int targets_value = targets[row];
int place = targets_value < 0 ? targets_value + 512 : targets_value;
// logits: f16[rows,512]
auto logits_row = logits + row * columns;
float maximum = -FLT_MAX;
float total = 0.0f;
for (uint start = lane * 4; start < columns; start += 128) {
  float raised = maximum;
  auto logits_run = load_run<packed_half4>(logits_row + start);
  for (uint k = 0; k < 4; ++k) {
    raised = metal::max(raised, float(logits_run[k]));
  }
  if (raised > maximum) {
    total *= metal::fast::exp(maximum - raised);
    maximum = raised;
  }
  for (uint k = 0; k < 4; ++k) {
    total += metal::fast::exp(float(logits_run[k]) - maximum);
  }
}
float row_maximum = metal::simd_max(maximum);
total *= metal::fast::exp(maximum - row_maximum);
total = metal::simd_sum(total);
if (lane == 0) {
  out[row] = half(metal::precise::log(total) - (float(logits_row[place]) - row_maximum));
}
