#include <metal_stdlib>
using namespace metal;
namespace n { kernel void a(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 1; } template <typename T> [[kernel]] void b(device T* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 2; } }
template [[host_name("nb")]] [[kernel]] decltype(n::b<float>) n::b<float>;
extern "C" kernel void c(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 3; }
void kernel d(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 4; }
extern "C" { kernel void e(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]); }
kernel void e(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 5; }
kernel
void
f
(
device float* y [[ buffer( 0 ) ]] // the output
, uint i [[ thread_position_in_grid ]]
) /* brace */ { y[i] = 6; }
