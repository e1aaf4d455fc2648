#include <metal_stdlib>
using namespace metal;
#define USE_BIAS 1
kernel void k(device const float* x [[buffer(0)]],
#if USE_BIAS
  device const float* b [[buffer(2)]],
#else
  device const half* b [[buffer(3)]],
#endif
  device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float v = x[i]
#ifdef USE_BIAS
    + b[i]
#endif
    ;
#if USE_BIAS
  if (v > 0) {
#else
  {
#endif
    v *= 2;
  }
  y[i] = v;
}
