#include <metal_stdlib>
using namespace metal;
#define ALIVE(w, b) (((w) >> (b)) & 1u)
#define FOR_EACH_NEIGHBOR(X) X(-1,-1) X(0,-1) X(1,-1) X(-1,0) X(1,0) X(-1,1) X(0,1) X(1,1)
kernel void life(device const uint* in, device uint* out, constant uint2& dims, uint2 pos [[thread_position_in_grid]]) {
  uint next = 0;
  for (uint b = 0; b < 32; ++b) {
    uint n = 0;
#define COUNT(dx, dy) { int xx = int(pos.x * 32 + b) + (dx), yy = int(pos.y) + (dy); xx = (xx + int(dims.x) * 32) % (int(dims.x) * 32); yy = (yy + int(dims.y)) % int(dims.y); n += ALIVE(in[uint(yy) * dims.x + uint(xx) / 32], uint(xx) % 32); }
    FOR_EACH_NEIGHBOR(COUNT)
#undef COUNT
    const bool me = ALIVE(in[pos.y * dims.x + pos.x], b);
    next |= uint(n == 3 || (me && n == 2)) << b;
  }
  out[pos.y * dims.x + pos.x] = next;
}
kernel void morton(device ulong* codes [[buffer(0)]], device const ushort3* cells [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  auto spread = [](ulong v) { v = (v | v << 32) & 0x1f00000000ffff; v = (v | v << 16) & 0x1f0000ff0000ffull; v = (v | v << 8) & 0x100f00f00f00f00fUL; v = (v | v << 4) & 0x10c30c30c30c30c3; v = (v | v << 2) & 0x1249249249249249; return v; };
  codes[i] = spread(cells[i].x) | spread(cells[i].y) << 1 | spread(cells[i].z) << 2;
}
