// column_split(chunks=16, strips=4)
// mean_chunks: x -> partial_0; grid (8192, 4, 1), threadgroup (32, 4, 1)
// Sum over the strips of a threadgroup; `partial` has 32 places for each.
template <typename T>
inline T strips_sum(T value, threadgroup T* partial, uint strip, uint strips, uint place) {
  partial[strip * 32 + place] = value;
  // Every strip's partial result is written before any is read.
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  T result = partial[place];
  for (uint other = 1; other < strips; ++other) {
    value = partial[other * 32 + place];
    result += value;
  }
  return result;
}

constexpr uint columns = 32;
uint row = thread_position_in_grid.x;
uint lane = thread_position_in_threadgroup.y;
uint simd_lane = thread_position_in_threadgroup.x;
// x: f16[512,512]
auto x_row = x + (row / 512) * 16384 + row % 512;
float total = 0.0f;
for (uint column = lane; column < columns; column += 4) {
  total += float(x_row[column * 512]);
}
threadgroup float partial_total[4][32];
total = strips_sum(total, partial_total[0], lane, 4, simd_lane);
if (lane == 0) {
  partial_0[row] = total;
}
// mean_rest: partial_0 -> out; grid (512, 1, 1), threadgroup (64, 1, 1)

constexpr uint columns = 16;
uint row = thread_position_in_grid.x;
// partial_0: f32
auto partial_0_row = partial_0 + row;
float total = 0.0f;
for (uint column = 0; column < columns; ++column) {
  total += partial_0_row[column * 512];
}
out[row] = half(total / 512);
