#include <metal_stdlib>
using namespace metal;
constant constexpr float kTable[4] = { 1.0f, 2.0f * 3, -4.5, M_PI_F };
constant uint8_t kBits[8] = { 1 << 0, 1 << 1, 1 << 2, 1 << 3, 16, 32, 64, 128 };
constant int8_t kvalues_iq4nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
constant struct { float a; int b; } kPair = { 1.5f, 2 };
static constant float2 kV[2] = { float2(1, 2), {3, 4} };
kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  constant float* p = &kTable[i & 3]; 
  constant int8_t* q = kvalues_iq4nl + (i & 15);
  y[i] = *p + kBits[i & 7] + *q + kPair.a * kPair.b + kV[i & 1].y;
}
