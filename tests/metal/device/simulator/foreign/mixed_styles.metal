// Classes, templates and tables as people write them around compute kernels.
#include <metal_stdlib>
using namespace metal;

template <typename D>
struct Activation {
  float run(float x) const thread { return static_cast<const thread D*>(this)->f(x) + D::bias; }
};
struct Relu : Activation<Relu> {
  static constexpr constant float bias = 1;
  float f(float x) const thread { return max(x, 0.0f); }
};
struct Leaky : public Activation<Leaky> {
  float slope = 0.1f;
  static constexpr constant float bias = 2;
  float f(float x) const thread { return x > 0 ? x : slope * x; }
};
kernel void activations(const device float* x, device float* y,
                        uint i [[thread_position_in_grid]]) {
  Relu a;
  Leaky b;
  b.slope *= 2;
  y[i] = a.run(x[i]) + b.run(x[i]);
}

class Generator {
  ulong state;

 public:
  Generator(ulong seed) : state(seed * 6364136223846793005ul + 1) {}
  uint next() {
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    uint shifted = uint(((state >> 18u) ^ state) >> 27u), by = state >> 59u;
    return (shifted >> by) | (shifted << ((-by) & 31));
  }
};
kernel void draw(device uint* out, uint i [[thread_position_in_grid]]) {
  Generator g(i);
  uint all = 0;
  for (auto turn : {1, 2, 3}) all ^= g.next() * turn;
  out[i] = all;
}

template <int... I>
struct Sequence {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
  using type = Sequence<I...>;
};
template <typename... T>
constexpr float total(T... values) {
  return (float(values) + ...);
}
template <int... I>
float weighted(const device float* p, Sequence<I...>) {
  return total((p[I] * (I + 1))...);
}
kernel void weigh(const device float* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = weighted(x + i * 4, typename Count<4>::type{}) + total(1, 2.5f, half(3), i);
}

struct Shared {
  float a[64];
  struct {
    uint count;
    atomic_uint hits;
  } meta;
  float2 m[4][4];
};
template <ushort N>
void load(threadgroup float (&tile)[N], const device float* source, ushort l) {
  tile[l] = source[l];
  if (l + 32 < N) tile[l + 32] = source[l + 32];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
kernel void shared(const device float* x, device float* y,
                   ushort l [[thread_index_in_threadgroup]]) {
  threadgroup Shared s;
  if (l == 0) {
    s.meta.count = 0;
    atomic_store_explicit(&s.meta.hits, 0, memory_order_relaxed);
  }
  if (l < 16) s.m[l / 4][l % 4] = float2(l, -1);
  load(s.a, x, l);
  if (s.a[l] >= 0) atomic_fetch_add_explicit(&s.meta.hits, 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup const float2(*row)[4] = &s.m[l % 4];
  y[l] = s.a[63 - l] + (*row)[l / 16].x + row[0][0].y + s.meta.count +
         atomic_load_explicit(&s.meta.hits, memory_order_relaxed);
}
