// scaled_softmax: f16[8,64] -> f16[8,64].
// Found by Kernelwright; VERIFICATION.md says what was checked.

#include "scaled_softmax.h"

#include <limits>
#include <optional>
#include <stdexcept>

namespace mx = mlx::core;

namespace scaled_softmax_kernels {

bool fits(const mlx::core::array& x) {
  return x.dtype() == mx::float16 && x.shape() == mx::Shape{8, 64};
}

bool serves(const mlx::core::array& x) {
  return mx::metal::is_available() && mx::default_device() == mx::Device::gpu &&
      fits(x);
}

mlx::core::array scaled_softmax(const mlx::core::array& x) {
  if (!fits(x)) {
    throw std::invalid_argument("scaled_softmax takes f16[8,64].");
  }
  static const auto kernel_1 = mx::fast::metal_kernel(
      "multiply_softmax_1e7f2b9cc4c8",
      {"x"},
      {"out"},
      R"msl(constexpr uint columns = 64;
uint row = thread_position_in_grid.y;
uint lane = thread_position_in_threadgroup.x;
// x: f16[rows,64]
auto x_row = x + row * columns;
// out: f16[rows,64]
auto out_row = out + row * columns;
float products[4];
float maximum = -INFINITY;
uint start = lane * 4;
auto x_run = load_run<packed_half4>(x_row + start);
for (uint k = 0; k < 4; ++k) {
  products[k] = float(x_run[k]) * 0.5f;
  maximum = metal::max(maximum, products[k]);
}
maximum = lanes_max<16>(maximum);
float exponentials[4];
float total = 0.0f;
for (uint k = 0; k < 4; ++k) {
  exponentials[k] = metal::fast::exp(products[k] - maximum);
  total += exponentials[k];
}
total = lanes_sum<16>(total);
float normalizer = 1.0f / total;
packed_half4 out_run;
for (uint k = 0; k < 4; ++k) {
  out_run[k] = half(exponentials[k] * normalizer);
}
*(device packed_half4*)(out_row + start) = out_run;
)msl",
      R"msl(// Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
template <typename V, typename T>
inline V load_run(const device T* values) {
  return *(const device V*)values;
}
template <typename V, typename T>
inline V load_run(const constant T* values) {
  return *(const constant V*)values;
}

// The largest value of those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_max(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value = metal::max(value, metal::simd_shuffle_xor(value, distance));
  }
  return value;
}

// Sum over those of `count` neighbouring lanes that stand `apart` from each other.
template <uint count, uint apart = 1, typename T>
inline T lanes_sum(T value) {
  for (uint distance = count / 2; distance >= apart; distance /= 2) {
    value += metal::simd_shuffle_xor(value, distance);
  }
  return value;
}
)msl",
      /* ensure_row_contiguous = */ true,
      /* atomic_outputs = */ false,
      mx::CompileOptions(static_cast<int>(mx::MathMode::Safe)));
  auto made_1 = kernel_1(
      {x},
      {mx::Shape{8, 64}},
      {mx::float16},
      {16, 8, 1},
      {16, 8, 1},
      {},
      std::nullopt,
      /* verbose = */ false,
      mx::Device::gpu);
  return made_1[0];
}

}  // namespace scaled_softmax_kernels
