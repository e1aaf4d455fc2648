// simdgroup_matrix<T, 8, 8>: two elements a lane, in the fragment layout of NVIDIA's tensor cores.
//
// The layout is ours to choose until a kernel asks for thread_elements(), which the translator
// refuses: there Apple's order is promised.
namespace metal {

template <class T> struct kw_pair { T first, second; };

KW_FUNC uint kw_moved(uint word, uint lane) {
  uint result;
  // Not volatile, unlike CUDA's own: what nobody reads is dropped.
  asm("shfl.sync.idx.b32 %0, %1, %2, 0x1f, %3;" : "=r"(result) : "r"(word), "r"(lane), "r"(kw_mask()));
  return result;
}
KW_FUNC kw_pair<uint> kw_crossed(kw_pair<uint> pair) {
  uint row = kw_lane() / 4u, from = 8u * (kw_lane() % 4u) + row / 2u;
  kw_pair<uint> above{kw_moved(pair.first, from), kw_moved(pair.second, from)};
  kw_pair<uint> below{kw_moved(pair.first, from + 4u), kw_moved(pair.second, from + 4u)};
  return {row % 2u ? above.second : above.first, row % 2u ? below.second : below.first};
}
KW_FUNC uint kw_crossed(uint pair) {
  uint result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}
template <class T> KW_FUNC kw_pair<T> kw_transposed(kw_pair<T> pair) {
  if constexpr (sizeof(T) == 2) return kw_bits<kw_pair<T>>(kw_crossed(kw_bits<uint>(pair)));
  else return kw_bits<kw_pair<T>>(kw_crossed(kw_bits<kw_pair<uint>>(pair)));
}

template <class T, int Rows = 8, int Columns = 8> struct simdgroup_matrix {
  static_assert(Rows == 8 && Columns == 8, "Metal has 8x8 matrices only");
  // Of lane l: elements (l/4, 2*(l%4)) and (l/4, 2*(l%4) + 1), as a left factor has them.
  kw_pair<T> kw_row;
  // Elements (2*(l%4), l/4) and (2*(l%4) + 1, l/4), as a right factor has them.
  kw_pair<T> kw_column;
  simdgroup_matrix() = default;
  KW_FUNC simdgroup_matrix(kw_pair<T> row, kw_pair<T> column) : kw_row(row), kw_column(column) {}
  KW_FUNC explicit simdgroup_matrix(kw_pair<T> row) : simdgroup_matrix(row, kw_transposed(row)) {}
  KW_FUNC explicit simdgroup_matrix(T diagonal) {
    uint row = kw_lane() / 4u, column = 2u * (kw_lane() % 4u);
    T zero = T(0.0f);
    kw_row = {row == column ? diagonal : zero, row == column + 1u ? diagonal : zero};
    kw_column = kw_row;
  }
};
using simdgroup_float8x8 = simdgroup_matrix<float>;
using simdgroup_half8x8 = simdgroup_matrix<half>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat>;

template <class T, int R = 8, int C = 8, class U = T>
KW_FUNC simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(U value) {
  kw_pair<T> both{T(value), T(value)};
  return {both, both};
}

// A lane's first element, and how far the second is: along a row, or down a column.
struct kw_two_places { ulong first, step; };
KW_FUNC kw_two_places kw_places(ulong stride, ulong2 origin, bool transposed, bool is_column) {
  ulong line = kw_lane() / 4u, along = 2u * (kw_lane() % 4u);
  if (transposed != is_column) return {(origin.y + along) * stride + origin.x + line, stride};
  return {(origin.y + line) * stride + origin.x + along, 1u};
}
template <class T, class U>
KW_FUNC void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const U* p, ulong stride = 8,
                            ulong2 origin = ulong2(0), bool transposed = false) {
  auto pair = [=](bool is_column) {
    kw_two_places place = kw_places(stride, origin, transposed, is_column);
    return kw_pair<T>{T(p[place.first]), T(p[place.first + place.step])};
  };
  // Neighbours of 16 bits are one access; two accesses cost more than crossing them over.
  if constexpr (sizeof(T) > 2) m = {pair(false), pair(true)};
  else if (transposed) m.kw_column = pair(true), m.kw_row = kw_transposed(m.kw_column);
  else m.kw_row = pair(false), m.kw_column = kw_transposed(m.kw_row);
}
template <class T, class U>
KW_FUNC void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, U* p, ulong stride = 8,
                             ulong2 origin = ulong2(0), bool transposed = false) {
  kw_two_places place = kw_places(stride, origin, transposed, false);
  p[place.first] = U(m.kw_row.first);
  p[place.first + place.step] = U(m.kw_row.second);
}

// The tensor core multiplies 16x8 by 8x8: two left factors above each other, or one and zeros.
struct kw_sums { kw_pair<float> upper, lower; };

#define KW_TENSOR_CORE(type, ptx)                                                                 \
  KW_FUNC kw_sums kw_multiply(kw_pair<type> upper, kw_pair<type> lower, kw_pair<type> right,      \
                              kw_sums c) {                                                        \
    kw_sums d;                                                                                    \
    asm("mma.sync.aligned.m16n8k8.row.col.f32." ptx "." ptx ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, " \
        "{%7,%8,%9,%10};"                                                                         \
        : "=f"(d.upper.first), "=f"(d.upper.second), "=f"(d.lower.first), "=f"(d.lower.second)    \
        : "r"(kw_bits<uint>(upper)), "r"(kw_bits<uint>(lower)), "r"(kw_bits<uint>(right)),        \
          "f"(c.upper.first), "f"(c.upper.second), "f"(c.lower.first), "f"(c.lower.second));      \
    return d;                                                                                     \
  }
KW_TENSOR_CORE(half, "f16")
KW_TENSOR_CORE(bfloat, "bf16")

// Tensor cores read a float's upper 19 bits (tf32). Its other bits are a second number, so that three
// products keep float precision: https://arxiv.org/abs/2203.03341.
struct kw_tf32 {
  uint high, low;
  kw_tf32() = default;
  KW_FUNC explicit kw_tf32(float x) {
    high = kw_bits<uint>(x) & 0xffffe000u;
    low = kw_bits<uint>(x - kw_bits<float>(high)) + 0x1000u;
  }
};
using kw_parts = kw_pair<kw_tf32>;
template <class T> KW_FUNC kw_parts kw_split(kw_pair<T> pair) {
  return {kw_tf32(float(pair.first)), kw_tf32(float(pair.second))};
}
KW_FUNC kw_pair<uint> kw_high(const kw_parts& p) { return {p.first.high, p.second.high}; }
KW_FUNC kw_pair<uint> kw_low(const kw_parts& p) { return {p.first.low, p.second.low}; }
KW_FUNC kw_sums kw_multiply_tf32(kw_pair<uint> upper, kw_pair<uint> lower, kw_pair<uint> right,
                                 kw_sums c) {
  kw_sums d;
  // The order of columns is free where rows of the right factor have the same.
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%12,%13};"
      : "=f"(d.upper.first), "=f"(d.upper.second), "=f"(d.lower.first), "=f"(d.lower.second)
      : "r"(upper.first), "r"(lower.first), "r"(upper.second), "r"(lower.second),
        "r"(right.first), "r"(right.second),
        "f"(c.upper.first), "f"(c.upper.second), "f"(c.lower.first), "f"(c.lower.second));
  return d;
}
KW_FUNC kw_pair<float> kw_numbers(kw_pair<float> p) {
  return {::fmaxf(p.first, -FLT_MAX), ::fmaxf(p.second, -FLT_MAX)};
}
template <class A, class B>
KW_FUNC kw_sums kw_multiply(kw_pair<A> upper, kw_pair<A> lower, kw_pair<B> right, kw_sums c) {
  kw_parts a = kw_split(upper), b = kw_split(lower), r = kw_split(right);
  kw_sums d = kw_multiply_tf32(kw_low(a), kw_low(b), kw_high(r), {});
  d = kw_multiply_tf32(kw_high(a), kw_high(b), kw_low(r), d);
  // What is left of an infinity or NaN is NaN, and says nothing about the sum.
  d = {kw_numbers(d.upper), kw_numbers(d.lower)};
  d = kw_multiply_tf32(kw_high(a), kw_high(b), kw_high(r), d);
  // Tensor cores cut sums off where we round: what was added up before stays out of them.
  return {{c.upper.first + d.upper.first, c.upper.second + d.upper.second},
          {c.lower.first + d.lower.first, c.lower.second + d.lower.second}};
}

template <class T> KW_FUNC kw_pair<float> kw_floats(const simdgroup_matrix<T, 8, 8>& m) {
  return {float(m.kw_row.first), float(m.kw_row.second)};
}
template <class D> KW_FUNC void kw_assign(simdgroup_matrix<D, 8, 8>& d, kw_pair<float> sums) {
  d = simdgroup_matrix<D, 8, 8>(kw_pair<D>{D(sums.first), D(sums.second)});
}
template <class D, class A, class B, class C>
KW_FUNC void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                           const simdgroup_matrix<A, 8, 8>& a,
                                           const simdgroup_matrix<B, 8, 8>& b,
                                           const simdgroup_matrix<C, 8, 8>& c) {
  kw_pair<A> none{A(0.0f), A(0.0f)};
  kw_assign(d, kw_multiply(a.kw_row, none, b.kw_column, {kw_floats(c), {0.0f, 0.0f}}).upper);
}
template <class D, class A, class B>
KW_FUNC void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                const simdgroup_matrix<B, 8, 8>& b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float>(0.0f));
}
template <class A, class B>
KW_FUNC simdgroup_matrix<A, 8, 8> operator*(const simdgroup_matrix<A, 8, 8>& a,
                                            const simdgroup_matrix<B, 8, 8>& b) {
  simdgroup_matrix<A, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}

// Two successive products with one right factor, as the translator joins them where the second reads
// nothing that the first writes.
template <class D, class A, class B, class C>
KW_FUNC void kw_multiply_two(
    simdgroup_matrix<D, 8, 8>& d0, const simdgroup_matrix<A, 8, 8>& a0,
    const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c0,
    simdgroup_matrix<D, 8, 8>& d1, const simdgroup_matrix<A, 8, 8>& a1,
    const simdgroup_matrix<B, 8, 8>&, const simdgroup_matrix<C, 8, 8>& c1) {
  kw_sums sums = kw_multiply(a0.kw_row, a1.kw_row, b.kw_column, {kw_floats(c0), kw_floats(c1)});
  kw_assign(d0, sums.upper);
  kw_assign(d1, sums.lower);
}

}  // namespace metal
