#include <metal_stdlib>
using namespace metal;
struct __attribute__((packed)) Raw { uchar tag; uint value; };
struct alignas(16) Node { packed_float3 lo; int left; packed_float3 hi; int right; bool leaf() const constant { return left < 0; } bool leaf() const device { return left < 0; } };
static_assert(sizeof(Node) == 32);
static bool slab(const device Node& n, float3 o, float3 inv, float tmax) {
  float3 a = (float3(n.lo) - o) * inv, b = (float3(n.hi) - o) * inv; float3 lo = min(a, b), hi = max(a, b);
  return max3(lo.x, lo.y, max(lo.z, 0.f)) <= min3(hi.x, hi.y, min(hi.z, tmax));
}
template <uint kDepth> struct Stack { int items[kDepth]; uint size = 0; void push(int v) thread { items[size++] = v; } int pop() thread { return items[--size]; } bool empty() const thread { return size == 0; } };
kernel void traverse(device const Node* nodes [[buffer(0)]], device const packed_float3* origins [[buffer(1)]], device uint* visited [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  const float3 o = origins[i]; const float3 inv = 1.0f / float3(0.57735f);
  Stack<16> s; s.push(0); uint n = 0;
  while (!s.empty()) {
    const device Node& node = nodes[s.pop()];
    if (!slab(node, o, inv, FLT_MAX)) continue;
    if (node.leaf()) { n += uint(~node.left); continue; }
    s.push(node.left); s.push(node.right);
  }
  visited[i] = n;
}
kernel void unpack_raw(device const Raw* raw [[buffer(0)]], device uint* y [[buffer(1)]], uint i [[thread_position_in_grid]]) { Raw r = raw[i]; y[i] = r.value + r.tag; }
