              
[[kernel]] void custom_kernel_made_498f7cae5799_float_floats_float16_t(
  const device float* x [[buffer(0)]],
  const constant float& scale [[buffer(1)]],
  device float16_t* y [[buffer(2)]],
  uint3 thread_position_in_grid [[thread_position_in_grid]]) {
                                      
uint i = thread_position_in_grid.x;
y[i] = x[i] * scale;                                

}
