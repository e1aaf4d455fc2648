#include <metal_stdlib>
using namespace metal;
struct Welford {
  float mean = 0, m2 = 0; uint n = 0;
  void add(float x) thread { n++; float d = x - mean; mean += d / n; m2 += d * (x - mean); }
  float variance() const thread { return n ? m2 / n : 0; }
  static Welford merge(Welford a, Welford b) { Welford r; r.n = a.n + b.n; if (!r.n) return r; float d = b.mean - a.mean; r.mean = a.mean + d * b.n / r.n; r.m2 = a.m2 + b.m2 + d * d * a.n * b.n / r.n; return r; }
};
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  Welford w; for (uint j = 0; j < n; ++j) w.add(x[i * n + j]);
  y[i] = w.variance();
}
