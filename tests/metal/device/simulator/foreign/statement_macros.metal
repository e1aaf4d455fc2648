#include <metal_stdlib>
using namespace metal;
#define ACC(v, n) do { \
    v += n;            \
  } while (0)
#define LANES for (int l = 0; l < 4; ++l)
#define IF_BIG(x) if ((x) > 2)
#define DEF(T) T f_##T(T a) { return a; }
DEF(float) DEF(int)
DEF(half)
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { float v = 0; LANES { ACC(v, l); } LANES v += 1; IF_BIG(v) v = 2; else v = 3; IF_BIG(v) { v = f_int(4); } y[i] = v + f_float(1) + \
 f_half(2); }
