#include <metal_stdlib>
using namespace metal;
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define DEFINE(name, sign) kernel void PASTE(elementwise_, name)(device const float (*a)[16] [[buffer(0)]], device float* c [[buffer(1)]], uint i [[thread_position_in_grid]]) { c[i] = a[i / 16][i % 16] sign 2; }
DEFINE(plus, +)
DEFINE(times, *)
