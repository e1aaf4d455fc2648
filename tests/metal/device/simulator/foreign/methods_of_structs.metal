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
struct Total {
  float sum;
  device Total& operator+=(float v) device { this->sum += v; return *this; }
  threadgroup Total& operator+=(float v) threadgroup { sum += v; return *this; }
  const constant Total* self() const constant { return this; }
};
kernel void totals(device Total* x [[buffer(0)]], constant Total& c [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  threadgroup Total s[32]; s[i].sum = 0; (s[i] += 1.0f) += c.self()->sum; (x[i] += 2.0f) += s[i].sum;
}
