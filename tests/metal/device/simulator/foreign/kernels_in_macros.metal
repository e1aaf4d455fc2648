#include <metal_stdlib>
using namespace metal;
#define UNARY(name, expr) kernel void name##_f32(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { float v = x[i]; y[i] = expr; }
UNARY(relu, v > 0 ? v : 0)
UNARY(sq, v * v)
#define INST(T) template [[host_name("copy_" #T)]] kernel void copy<T>(device const T*, device T*, uint);
template <typename T> kernel void copy(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
INST(float) INST(half)
