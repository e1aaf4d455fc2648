#include <metal_stdlib>
using namespace metal;
constant float2 offset [[function_constant(0)]];
constant ushort3 tile [[function_constant(1)]];
constant half scale [[function_constant(2)]];
static constant bool is_fast [[function_constant(3)]];
namespace config { constant int rounds [[function_constant(4)]]; }
constant bool has_tile = is_function_constant_defined(tile);
constant int steps = config::rounds * 2 + 1;
template <typename T> T twice(T x) { if (is_fast) return x; return x * 2; }
kernel void function_constants(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float r = offset.x + offset.y + scale + (has_tile ? tile.z : 8);
  for (int k = 0; k < steps; k++) r = twice(r);
  y[i] = r;
}
