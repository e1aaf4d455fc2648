// mpp::tensor_ops: products of matrices by a simdgroup, on M5's neural accelerators.
#pragma once

#include <metal_cooperative_tensor>

namespace mpp {
namespace tensor_ops {

using metal::kw_site;

template <typename I>
constexpr constant I dynamic_length_v = I(-1);

struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;
  bool transpose_left, transpose_right, relaxed_precision;
  mode matmul_mode;
  KW_INLINE constexpr matmul2d_descriptor(int m_, int n_, int k_ = -1, bool left = false,
                                          bool right = false, bool relaxed = false,
                                          mode mode_ = mode::multiply)
      : m(m_), n(n_), k(k_), transpose_left(left), transpose_right(right),
        relaxed_precision(relaxed), matmul_mode(mode_) {}
};

template <matmul2d_descriptor D, typename Scope>
struct matmul2d {
  static_assert(__is_same(Scope, metal::execution_simdgroup),
                "the simulator runs tensor operations of one simdgroup: metal::execution_simdgroup");
  template <typename T, int K = D.k>
  using kw_left = metal::cooperative_tensor<T, D.transpose_left ? K : D.m, D.transpose_left ? D.m : K>;
  template <typename T, int K = D.k>
  using kw_right = metal::cooperative_tensor<T, D.transpose_right ? D.n : K, D.transpose_right ? K : D.n>;
  template <typename T>
  using kw_result = metal::cooperative_tensor<T, D.m, D.n>;

  template <typename L, typename R, typename E>
  KW_INLINE kw_left<L> get_left_input_cooperative_tensor() const { return {}; }
  template <typename L, typename R, typename E>
  KW_INLINE kw_right<R> get_right_input_cooperative_tensor() const { return {}; }
  template <typename L, typename R, typename E>
  KW_INLINE kw_result<E> get_destination_cooperative_tensor() const { return {}; }

  // Each operand is in registers or in memory.
  template <typename L, typename R, typename E>
  KW_INLINE void run(const thread L& left, const thread R& right, thread E& result, KW_SITE) const {
    if constexpr (metal::kw_is_tensor<E>) {
      kw_result<typename kw_bare<typename E::element_type>::type> sums;
      if constexpr (D.matmul_mode == matmul2d_descriptor::mode::multiply_accumulate) sums.load(result);
      run(left, right, sums, site);
      sums.store(result);
    } else {
      if constexpr (D.matmul_mode == matmul2d_descriptor::mode::multiply)
        for (int i = 0; i < E::kw_capacity; i++) result[i] = typename E::element_type(0.0f);
      kw_add(left, right, result, site);
    }
  }

 private:
  template <typename L, typename R, typename E>
  KW_INLINE static void kw_add(const thread L& left, const thread R& right, thread E& result,
                               kw_site site) {
    if constexpr (metal::kw_is_tensor<L> && D.k < 0) {
      const int length = left.get_extent(D.transpose_left ? 1 : 0);
      for (int k = 0; k < length; k += 16) {
        kw_left<kw_element<L>, 16> a;
        kw_right<kw_element<R>, 16> b;
        a.load(kw_from(left, D.transpose_left, k));
        b.load(kw_from(right, !D.transpose_right, k));
        kw_blocks<16>(a, b, result, site);
      }
    } else if constexpr (metal::kw_is_tensor<L>) {
      kw_left<kw_element<L>> a;
      a.load(left);
      kw_add(a, right, result, site);
    } else if constexpr (metal::kw_is_tensor<R>) {
      kw_right<kw_element<R>> b;
      b.load(right);
      kw_blocks<D.k>(left, b, result, site);
    } else {
      kw_blocks<D.k>(left, right, result, site);
    }
  }
  template <typename T>
  using kw_element = typename kw_bare<typename T::element_type>::type;
  template <typename T>
  KW_INLINE static auto kw_from(const thread T& whole, bool along_columns, int k) {
    return whole.template slice<metal::dynamic_extent, metal::dynamic_extent>(along_columns ? 0 : k,
                                                                              along_columns ? k : 0);
  }
  // 32-bit floats take the ordinary units: source J of profile.py.
  template <typename T>
  static constexpr bool kw_is_accelerated = sizeof(kw_element<T>) <= 2;
  template <int K, typename L, typename R, typename E>
  KW_INLINE static void kw_blocks(const thread L& left, const thread R& right, thread E& result,
                                  kw_site site) {
    typedef typename E::element_type E_t;
    typedef typename metal::conditional<metal::is_integral_v<E_t>, int, float>::type S;
    constexpr int rows = D.m / 16, columns = D.n / 16, inner = K / 16;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c++)
        for (int k = 0; k < inner; k++) {
          const int at_a = D.transpose_left ? k * rows + r : r * inner + k;
          const int at_b = D.transpose_right ? c * inner + k : k * columns + c;
          S sums[8];
          for (int e = 0; e < 8; e++) sums[e] = S(result[(r * columns + c) * 8 + e]);
#ifdef KW_COUNT
          // Of 8 x 8 x 8, as simdgroup matrices are.
          kw_count(KW_MATRIX, 8 * 32);
          if constexpr (kw_is_accelerated<L> && kw_is_accelerated<R>) kw_count(KW_TENSOR, 8 * 32);
#endif
          kw_halves_of<S, 0, 0>(left, right, at_a * 8, at_b * 8, sums, site);
          kw_halves_of<S, 0, 1>(left, right, at_a * 8, at_b * 8, sums, site);
          kw_halves_of<S, 1, 0>(left, right, at_a * 8, at_b * 8, sums, site);
          kw_halves_of<S, 1, 1>(left, right, at_a * 8, at_b * 8, sums, site);
          for (int e = 0; e < 8; e++) result[(r * columns + c) * 8 + e] = E_t(sums[e]);
        }
  }
  template <typename S, int LeftHalf, int RightHalf, typename L, typename R>
  KW_INLINE static void kw_halves_of(const thread L& left, const thread R& right, int at_a, int at_b,
                                     thread S* sums, kw_site site) {
    typedef metal::kw_half_product<S, D.transpose_left, D.transpose_right, LeftHalf, RightHalf> product;
    if constexpr (product::meets) {
      metal::kw_halves<S> in;
      for (int e = 0; e < 4; e++) {
        in.a[e] = S(left[at_a + 4 * LeftHalf + e]);
        in.b[e] = S(right[at_b + 4 * RightHalf + e]);
      }
      auto out = metal::kw_exchange<metal::kw_halves<S>, metal::kw_fragment<S>, product>::call(in, site);
      for (int e = 0; e < 8; e++) sums[e] += out.d[e];
    }
  }
};

}  // namespace tensor_ops
}  // namespace mpp
