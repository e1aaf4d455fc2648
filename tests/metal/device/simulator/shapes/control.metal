#include <metal_stdlib>
using namespace metal;

// fallthrough
kernel void fallthrough(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float s = 0;
  switch (i % 6) {
    case 0: case 1: s += 1;
    [[fallthrough]];
    case 2: {
      float t = x[i];
      s += t;
      break;
    }
    default: s = -1;
    case 4: s += 10;
    break;
    case 5: y[i] = 99;
    return;
  }
  y[i] = s;
}

// do while
kernel void do_while(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  uint n = i + 1;
  float s = 0;
  do {
    if (n % 2 == 0) {
      n /= 2;
      continue;
    }
    s += n;
    if (n == 1 || s > 50) break;
    n = 3 * n + 1;
  } while (n != 0);
  y[i] = s;
}

// range for
kernel void range_for(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float a[4] = {1, 2, x[i], 4};
  float s = 0;
  for (float v : a) s += v;
  for (thread float& v : a) v *= 2;
  array<float, 3> b = {{1, 2, 3}};
  for (auto v : b) s += v;
  b[1] = 5;
  y[i] = s + a[2] + b[1] + b.size();
}

// structured bindings
namespace of_structured_bindings {
struct Two {
  float a;
  int b;
};
static Two two(float v) { return {v, 4}; }
}
kernel void structured_bindings(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_structured_bindings;
  auto [p, q] = two(x[i]);
  float a[2] = {1, 2};
  auto [r, s] = a;
  y[i] = p + q + r * 10 + s;
}

// comma and chains
kernel void comma_and_chains(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float a = 0, b = 0, c = 0;
  a = b = c = x[i];
  for (uint p = 0, q = 3; p < q; p++, q--) a += q;
  int n = i > 5 ? i > 20 ? i > 40 ? 3 : 2 : 1 : 0;
  b = (a++, a + 1);
  c -= -+-a;
  y[i] = a + b + c + n - (i & 1 ? 1 : -1);
}

// switch in loops
namespace of_switch_in_loops {
enum class State : ushort { Start, Middle, End = 7 };
static float stepped(thread State& s, float v) {
  switch (s) {
    case State::Start: s = State::Middle;
    return v;
    case State::Middle: {
      s = State::End;
      return v * 2;
    }
    default: break;
  }
  return 0;
}
}
kernel void switch_in_loops(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_switch_in_loops;
  State s = State::Start;
  float t = 0;
  for (uint k = 0;; k++) {
    switch (k % 4) {
      case 0: continue;
      case 1: t += stepped(s, x[i]);
      break;
      case 2: if (i & 1) break;
      t += 1;
      break;
      case 3: if (k > i % 9) break;
      break;
      default: t = -1;
    }
    if (s == State::End && k > 8) break;
  }
  y[i] = t + ushort(s);
}

// loops of odd kinds
kernel void loops_of_odd_kinds(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  float t = 0;
  for (float f = 0; f < 1; f += 0.25f) t += f;
  for (uchar k = 250; k != 3; k++) t += 1;
  for (int a = 0, b = 10; a < b; a += 2, --b) t += b - a;
  uint n = i;
  while (n) {
    n &= n - 1;
    t += 100;
  }
  for (;;) { if (t > 0) break; }
  do t += x[i];
  while (false);
  bool stop = false;
  for (uint k = 0; !stop; stop = ++k > 3) {
    for (uint j = 0; j < 5; j++) {
      if (j == k) continue;
      if (j > 3) break;
      t += j;
    }
  }
  y[i] = t;
}
