// simdgroup_matrix<T, 8, 8>: two elements a lane, in the fragment layout of NVIDIA's tensor cores.
//
// Element (row, column) of lane l: row l/4, columns 2*(l%4) and the next. The layout is ours to
// choose until a kernel asks for thread_elements(), which the translator refuses: there Apple's
// order is promised.
namespace metal {

template <class T, int Rows = 8, int Columns = 8> struct simdgroup_matrix {
  static_assert(Rows == 8 && Columns == 8, "Metal has 8x8 matrices only");
  T kw_elements[2];
  simdgroup_matrix() = default;
  KW_FUNC explicit simdgroup_matrix(T diagonal) {
    for (int i = 0; i < 2; i++) {
      kw_elements[i] = kw_lane() / 4u == 2u * (kw_lane() % 4u) + i ? diagonal : T(0.0f);
    }
  }
};
using simdgroup_float8x8 = simdgroup_matrix<float>;
using simdgroup_half8x8 = simdgroup_matrix<half>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat>;

template <class T, int R = 8, int C = 8, class U = T>
KW_FUNC simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(U value) {
  simdgroup_matrix<T, R, C> m;
  m.kw_elements[0] = m.kw_elements[1] = T(value);
  return m;
}

KW_FUNC ulong kw_element_offset(int i, ulong stride, ulong2 origin, bool transposed) {
  ulong row = kw_lane() / 4u, column = 2u * (kw_lane() % 4u) + i;
  if (transposed) return (origin.y + column) * stride + origin.x + row;
  return (origin.y + row) * stride + origin.x + column;
}
template <class T, class U>
KW_FUNC void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const U* p, ulong stride = 8,
                            ulong2 origin = ulong2(0), bool transposed = false) {
#pragma unroll
  for (int i = 0; i < 2; i++) m.kw_elements[i] = T(p[kw_element_offset(i, stride, origin, transposed)]);
}
template <class T, class U>
KW_FUNC void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, U* p, ulong stride = 8,
                             ulong2 origin = ulong2(0), bool transposed = false) {
#pragma unroll
  for (int i = 0; i < 2; i++) p[kw_element_offset(i, stride, origin, transposed)] = U(m.kw_elements[i]);
}

KW_FUNC uint kw_pair(const simdgroup_matrix<half, 8, 8>& m) { return kw_bits<uint>(m.kw_elements); }
KW_FUNC uint kw_pair(const simdgroup_matrix<bfloat, 8, 8>& m) { return kw_bits<uint>(m.kw_elements); }
KW_FUNC uint kw_transposed(uint pair) {
  uint result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

// The tensor core multiplies 16x8 by 8x8; our eight rows are its upper half, the lower is zero.
#define KW_TENSOR_CORE(type, ptx)                                                                 \
  KW_FUNC void kw_multiply(float (&d)[2], const simdgroup_matrix<type, 8, 8>& a,                  \
                           const simdgroup_matrix<type, 8, 8>& b) {                               \
    float low0 = 0.0f, low1 = 0.0f;                                                               \
    asm("mma.sync.aligned.m16n8k8.row.col.f32." ptx "." ptx ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, " \
        "{%0,%1,%2,%3};"                                                                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(low0), "+f"(low1)                                          \
        : "r"(kw_pair(a)), "r"(0u), "r"(kw_transposed(kw_pair(b))));                              \
  }
KW_TENSOR_CORE(half, "f16")
KW_TENSOR_CORE(bfloat, "bf16")

// Float operands keep float precision: tensor cores would round them to tf32.
template <class A, class B>
KW_FUNC void kw_multiply(float (&d)[2], const simdgroup_matrix<A, 8, 8>& a,
                         const simdgroup_matrix<B, 8, 8>& b) {
  uint row = kw_lane() / 4u, pair = kw_lane() % 4u;
#pragma unroll
  for (uint k = 0; k < 8; k++) {
    float left = float(kw_shuffle(a.kw_elements[k & 1u], 4u * row + k / 2u));
    uint source = 4u * k + pair;
    d[0] = ::fmaf(left, float(kw_shuffle(b.kw_elements[0], source)), d[0]);
    d[1] = ::fmaf(left, float(kw_shuffle(b.kw_elements[1], source)), d[1]);
  }
}

template <class D, class A, class B, class C>
KW_FUNC void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                           const simdgroup_matrix<A, 8, 8>& a,
                                           const simdgroup_matrix<B, 8, 8>& b,
                                           const simdgroup_matrix<C, 8, 8>& c) {
  float sum[2] = {float(c.kw_elements[0]), float(c.kw_elements[1])};
  kw_multiply(sum, a, b);
  d.kw_elements[0] = D(sum[0]);
  d.kw_elements[1] = D(sum[1]);
}
template <class D, class A, class B>
KW_FUNC void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                const simdgroup_matrix<B, 8, 8>& b) {
  float sum[2] = {0.0f, 0.0f};
  kw_multiply(sum, a, b);
  d.kw_elements[0] = D(sum[0]);
  d.kw_elements[1] = D(sum[1]);
}
template <class D, class A, class B>
KW_FUNC simdgroup_matrix<D, 8, 8> operator*(const simdgroup_matrix<A, 8, 8>& a,
                                            const simdgroup_matrix<B, 8, 8>& b) {
  simdgroup_matrix<D, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}

}  // namespace metal
