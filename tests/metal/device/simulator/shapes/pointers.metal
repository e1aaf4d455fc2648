#include <metal_stdlib>
using namespace metal;

// pointers that move
kernel void pointers_that_move(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  device float* p = y + i;
  const device float* q = x + i;
  const device float* end = x + 64;
  *p = 0;
  *p += *q++;
  long d = end - q;
  *p += d;
  *p += q[-1];
  p[0] *= 2;
  const device float* r = &x[i];
  *p += (r == q - 1) + (r < end) + !(r > end);
  *p += *(r + 0) ;
}

// pointers of all kinds
namespace of_pointers_of_all_kinds {
struct Ref {
  const device float* p;
  threadgroup float* t;
  thread float* own;
};
template <typename P> struct Holder {
  P p;
  auto get(uint k) const -> decltype(p[0] + 0) { return p[k]; }
};
static float last(const thread float* p, uint n) { return p[n - 1]; }
static void bump(float device* p) { *p += 1; }
}
kernel void pointers_of_all_kinds(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_pointers_of_all_kinds;
  threadgroup float t[64];
  t[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float own[2] = {1, 2};
  Ref r = {x + 1, t, own};
  const device float* ps[2] = {x, x + 32};
  thread float* q = own;
  thread float* thread* pp = &q;
  **pp = 9;
  Holder<threadgroup float*> h{t + 1};
  Holder<const device float*> g = {x};
  float m[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  thread float (*row)[4] = m;
  ++row;
  y[i] = 0;
  bump(y + i);
  bump(&y[i]);
  float const device* const c = x + i;
  threadgroup float (*w)[8] = (threadgroup float (*)[8])t;
  y[i] += r.p[0] + r.t[i] + r.own[0] + ps[i & 1][3] + h.get(2) + g.get(i) + (*row)[1] + last(own, 2) +
      *c + w[i / 8][i % 8] + (q == own ? 1 : 0) + (r.p != nullptr);
}

// const methods in spaces
namespace of_const_methods_in_spaces {
struct View {
  const device float* p;
  uint n;
  float at(uint k) const { return p[k % n]; }
  const device float& operator[](uint k) const { return p[k]; }
};
struct Acc {
  float s = 0;
  uint n{0};
  void add(float v) {
    s += v;
    n++;
  }
  float mean() const { return s / n; }
};
template <typename T> struct Span {
  T p;
  ushort n;
  Span(T q, ushort m) : p(q), n(m) {}
  auto operator*() const { return *p; }
};
}
kernel void const_methods_in_spaces(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_const_methods_in_spaces;
  View v = {x, 64};
  Acc a;
  for (ushort k = 0; k < 4; k++) a.add(v.at(i + k));
  Span<const device float*> s(x + i, 3);
  y[i] = a.mean() + v[i] + *s + s.n;
}

// arrays of arrays
namespace of_arrays_of_arrays {
template <int R, int K> static float trace(thread float (&m)[R][K]) {
  float s = 0;
  for (int k = 0; k < (R < K ? R : K); ++k) s += m[k][k];
  return s;
}
static void fill(thread float m[2][2], float v) { m[1][0] = v; }
}
kernel void arrays_of_arrays(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_arrays_of_arrays;
  float m[3][4];
  for (uint r = 0; r < 3; r++) for (uint c = 0; c < 4; c++) m[r][c] = x[i] * r + c;
  float q[2][2] = {{1}, {0, 4}};
  fill(q, x[i]);
  float z[2][2][2] = {};
  z[1][0][1] = 3;
  thread float* row = m[1];
  y[i] = trace(m) + q[1][0] + q[0][0] + q[0][1] + z[1][0][1] + z[0][0][0] + row[2];
}

// threadgroup arrays of arrays
namespace of_threadgroup_arrays_of_arrays {
struct Cell {
  float v;
  ushort n;
};
}
kernel void threadgroup_arrays_of_arrays(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_threadgroup_arrays_of_arrays;
  threadgroup float t[8][9];
  threadgroup Cell c[2][32];
  threadgroup float2 w[64];
  t[i / 8][i % 8] = x[i];
  c[sg][lane] = {x[i], ushort(lane)};
  w[i] = float2(i, -1);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float* row = t[i % 8];
  threadgroup Cell& o = c[1 - sg][31 - lane];
  w[i].y = 3;
  y[i] = row[i / 8] + o.v * o.n + w[i].x + w[i].y;
}

// arrays of the library
namespace of_arrays_of_the_library {
constant array<float, 3> THREE = {{1, 2, 3}};
constant array<array<int, 2>, 2> GRID = {{{{1, 2}}, {{3, 4}}}};
static float total(thread const array<float, 4>& a) {
  float s = 0;
  for (uint k = 0; k < a.size(); k++) s += a[k];
  return s;
}
static array<float, 4> made(float v) {
  array<float, 4> a;
  for (auto& e : a) e = v;
  a[3] = 1;
  return a;
}
}
kernel void arrays_of_the_library(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {
  using namespace of_arrays_of_the_library;
  array<float, 4> a = made(x[i]);
  array<float, 4> b = a;
  b[0] = 5;
  y[i] = total(a) + total(b) + THREE[i % 3] + GRID[1][i & 1];
}

// pointers as what a template is given
namespace of_pointers_given_to_templates {
template <typename P> struct Holder { P p; };
}
kernel void pointers_given_to_templates(const device float* x [[buffer(0)]],
    device float* y [[buffer(1)]], uint i [[thread_position_in_threadgroup]]) {
  using namespace of_pointers_given_to_templates;
  threadgroup float t[65], last;
  threadgroup Holder<threadgroup float*> shared;
  t[i] = x[i];
  if (i == 0) {
    t[64] = last = 65;
    shared.p = t + 3;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Holder<threadgroup float*> a{t + i}, b[2] = {{t + 1}, {t + 64}};
  const Holder<const threadgroup float*> c = {&last};
  array<threadgroup float*, 2> both;
  both[1] = t;
  array<Holder<const device float*>, 2> rows;
  rows[1].p = x;
  y[i] = *a.p + *b[1].p + *c.p + both[1][2] + *shared.p + rows[1].p[i];
}
