#include <metal_stdlib>
using namespace metal;
constant char* const NAMES[2] = { "ab" "c", "d" };
constant char WORD[] = "xyz";
kernel void k(device char* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  constant char* s = "xyz"; const constant char* t = i ? "pq" : "r"; char own[4] = "abc";
  y[i] = s[1] + NAMES[i & 1][0] + t[0] + own[2] + WORD[2];
}
