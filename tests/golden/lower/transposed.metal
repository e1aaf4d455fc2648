// elementwise(vector=1)
// tanh_multiply: x, scale -> out; grid (8, 512, 1), threadgroup (8, 32, 1)

uint row = thread_position_in_grid.y;
uint column = thread_position_in_grid.x;
out[row * 8 + column] = half(metal::precise::tanh(float(x[column * 512 + row])) * float(scale));
