// columnwise(strips=2, vector=4)
// mean: x -> out; grid (128, 2, 1), threadgroup (32, 2, 1)
// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

constexpr uint columns = 8;
uint run = thread_position_in_grid.x;
uint strip = thread_position_in_threadgroup.y;
uint lane = thread_position_in_threadgroup.x;
float total[4] = {};
for (uint column = strip; column < columns; column += 2) {
  auto x_run = load_run<packed_half4>(x + (column * 512 + run * 4));
  for (uint k = 0; k < 4; ++k) {
    total[k] += float(x_run[k]);
  }
}
threadgroup float partial_total[2][128];
for (uint k = 0; k < 4; ++k) {
  partial_total[strip][k * 32 + lane] = total[k];
}
// Every strip's partial results are written before any is read.
threadgroup_barrier(metal::mem_flags::mem_threadgroup);
if (strip == 0) {
  packed_half4 out_run;
  for (uint k = 0; k < 4; ++k) {
    for (uint other = 1; other < 2; ++other) {
      total[k] += partial_total[other][k * 32 + lane];
    }
    out_run[k] = half(total[k] / columns);
  }
  *(device packed_half4*)(out + run * 4) = out_run;
}
