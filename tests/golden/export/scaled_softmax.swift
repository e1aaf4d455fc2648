// Found by Kernelwright; VERIFICATION.md says what was checked.

import MLX

private let kernel1 = MLXFast.metalKernel(
    name: "multiply_softmax_1e7f2b9cc4c8",
    inputNames: ["x"],
    outputNames: ["out"],
    source: #"""
        constexpr uint columns = 64;
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

        """#,
    header: #"""
        // Neighbouring values in one access; MLX places inputs of fewer than 8 elements in `constant`.
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

        """#,
    ensureRowContiguous: true,
    atomicOutputs: false)

/// Whether the kernels take these arrays: their shapes and dtypes.
public func scaled_softmaxServes(_ x: MLXArray) -> Bool {
    x.dtype == .float16 && x.shape == [8, 64]
}

/// scaled_softmax by the kernels: f16[8,64] -> f16[8,64]; nil where they do not serve.
public func scaled_softmax(_ x: MLXArray) -> MLXArray? {
    guard scaled_softmaxServes(x) else { return nil }
    let made1 = kernel1(
        [x],
        grid: (16, 8, 1),
        threadGroup: (16, 8, 1),
        outputShapes: [[8, 64]],
        outputDTypes: [.float16],
        stream: .gpu)
    return made1[0]
}

/// scaled_softmax by the kernels where they serve, else by a fallback.
public func scaled_softmax(
    _ x: MLXArray, fallback: (MLXArray) throws -> MLXArray
) rethrows -> MLXArray {
    if let made = scaled_softmax(x) { return made }
    return try fallback(x)
}
