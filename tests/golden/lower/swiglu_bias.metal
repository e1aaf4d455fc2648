// elementwise(vector=4, threads=256)
// add_sigmoid_multiply: gate, up, bias -> out; grid (128, 'rows', 1), threadgroup (128, 2, 1)
// exp() of a negative magnitude alone: no overflow, and no cancellation near 0 and 1.
inline float sigmoid(float x) {
  float decay = metal::precise::exp(-metal::abs(x));
  return (x < 0.0f ? decay : 1.0f) / (1.0f + decay);
}

uint row = thread_position_in_grid.y;
uint start = thread_position_in_grid.x * 4;
for (uint column = start; column < start + 4; ++column) {
  uint place = row * 512 + column;
  float sum = float(gate[place]) + float(bias[column]);
  out[place] = half(sum * sigmoid(sum) * float(up[place]));
}
